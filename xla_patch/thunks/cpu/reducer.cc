#include "xla_patch/thunks/cpu/reducer.h"

#include <algorithm>

#include "xla_patch/shm/copy_timer.h"
#include "xla_patch/types/invariant.h"

namespace xla_shmem {
namespace {

// Pieces that Advance reduces before other messages have their turn, each of at most a view.
constexpr int kPiecesAtOnce = 16;

}  // namespace

bool Reducer::Advance(const PeContext& context, size_t limit, bool in_place) {
  bool made_progress = false;
  for (int piece = 0; piece < kPiecesAtOnce && !done(); ++piece) {
    // Looks at all contributions, even if an earlier one has not arrived or `limit` forbids the reduction: their
    // senders may need the answer that they have been read before they can proceed (docs/protocol.md, "All-reduce").
    size_t end = limit;
    for (Contribution& contribution : contributions_) {
      contribution.view = contribution.message.Look(context, in_place);
      end = std::min(end, contribution.view.end);
    }
    if (end <= reduced_ || !AdvanceTo(context, end)) break;
    made_progress = true;
  }
  return made_progress;
}

size_t Reducer::HoldContributions() {
  size_t held = 0;
  for (const auto& [message, view] : contributions_) {
    if (view.is_of_sender() && !message.Hold()) break;
    ++held;
  }
  return held;
}

bool Reducer::AdvanceTo(const PeContext& context, size_t end) {
  const size_t held = HoldContributions();
  bool is_right = held == contributions_.size();
  if (is_right) {
    ReduceTo(context, end);
    for (const auto& [message, view] : contributions_) {
      is_right &= !view.is_of_sender() || context.cross_memory_reader->IsIntact(message.sender());
    }
  }
  if (is_right) {
    for (Contribution& contribution : contributions_) contribution.message.Consume(context, end);
    reduced_ = end;
  }
  for (size_t i = 0; i < held; ++i) {
    if (contributions_[i].view.is_of_sender()) contributions_[i].message.Release();
  }
  return is_right;
}

void Reducer::ReduceTo(const PeContext& context, size_t end) {
  XLA_SHMEM_INVARIANT(reduced_, <, end);
  XLA_SHMEM_INVARIANT(end, <=, total());
  const shm::ScopedCopyTimer timer;
  inputs_.resize(contributions_.size() + 1);
  result_.ForEach(reduced_, end, [&](size_t buffer, char* result, size_t position, size_t bytes) {
    const auto offset = static_cast<size_t>(result - result_.memory(buffer));
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (i == own_index_) {
        inputs_[i] = own_.memory(buffer) + offset;
        continue;
      }
      const auto& [message, view] = contributions_[i < own_index_ ? i : i - 1];
      XLA_SHMEM_INVARIANT(view.begin, <=, position);
      XLA_SHMEM_INVARIANT(position + bytes, <=, view.end);
      inputs_[i] =
          view.is_of_sender() ? message.InBuffer(context, buffer, offset, bytes) : view.data + (position - view.begin);
    }
    const ElementType type = types_[buffer];
    Reduce(type, kind_, inputs_.data(), inputs_.size(), bytes / ElementBytes(type), result);
  });
}

}  // namespace xla_shmem
