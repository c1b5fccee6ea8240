#include "xla_patch/thunks/cpu/reducer.h"

#include <algorithm>

#include "xla_patch/shm/copy_timer.h"
#include "xla_patch/types/invariant.h"

namespace xla_shmem {

bool Reducer::Advance(const PeContext& context, size_t limit) {
  bool made_progress = false;
  while (!done()) {
    // Looks at all contributions, even if an earlier one has not arrived or `limit` forbids the reduction: their
    // senders may need the answer that they have been read before they can proceed (docs/protocol.md, "All-reduce").
    size_t end = limit;
    for (Contribution& contribution : contributions_) {
      contribution.view = contribution.message.Look(context);
      end = std::min(end, contribution.view.end);
    }
    if (end <= reduced_) break;
    ReduceTo(end);
    for (Contribution& contribution : contributions_) contribution.message.Consume(context, end);
    made_progress = true;
  }
  return made_progress;
}

void Reducer::ReduceTo(size_t end) {
  XLA_SHMEM_INVARIANT(reduced_, <, end);
  XLA_SHMEM_INVARIANT(end, <=, total());
  const shm::ScopedCopyTimer timer;
  inputs_.resize(contributions_.size() + 1);
  result_.ForEach(reduced_, end, [&](size_t buffer, char* result, size_t position, size_t bytes) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (i == own_index_) {
        inputs_[i] = own_.memory(buffer) + (result - result_.memory(buffer));
      } else {
        const MessageReceiver::View& view = contributions_[i < own_index_ ? i : i - 1].view;
        XLA_SHMEM_INVARIANT(view.begin, <=, position);
        XLA_SHMEM_INVARIANT(position + bytes, <=, view.end);
        inputs_[i] = view.data + (position - view.begin);
      }
    }
    const ElementType type = types_[buffer];
    Reduce(type, kind_, inputs_.data(), inputs_.size(), bytes / ElementBytes(type), result);
  });
  reduced_ = end;
}

}  // namespace xla_shmem
