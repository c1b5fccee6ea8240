// Reduces the messages of all members of a group, piece by piece as they arrive, in group order.
#ifndef XLA_SHMEM_THUNKS_CPU_REDUCER_H_
#define XLA_SHMEM_THUNKS_CPU_REDUCER_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "xla_patch/thunks/cpu/message_receiver.h"
#include "xla_patch/thunks/cpu/spans.h"
#include "xla_patch/thunks/reduction.h"

namespace xla_shmem {

class Reducer {
 public:
  // `own`: the contribution of this PE, which is member `own_index`. `result` has the same sizes. One type a buffer.
  Reducer(ReductionKind kind, std::vector<ElementType> types, size_t own_index, Spans own, Spans result)
      : kind_(kind),
        types_(std::move(types)),
        own_index_(own_index),
        own_(std::move(own)),
        result_(std::move(result)) {}

  // The other members' contributions, in group order.
  struct Contribution {
    MessageReceiver message;
    MessageReceiver::View view{nullptr, 0, 0};
  };
  std::vector<Contribution>& contributions() { return contributions_; }
  const std::vector<Contribution>& contributions() const { return contributions_; }

  const Spans& result() const { return result_; }
  size_t total() const { return result_.total(); }
  // The number of reduced positions.
  size_t reduced() const { return reduced_; }
  bool done() const { return reduced_ == result_.total(); }

  // Reduces positions below `limit` that have arrived, at most some pieces. True if it made progress. `in_place`: it
  // may read the buffers of other members, and holds them until it has reduced them.
  bool Advance(const PeContext& context, size_t limit, bool in_place);

 private:
  // False if a member has failed or has its buffers back, so that no result will come.
  bool AdvanceTo(const PeContext& context, size_t end);
  // Their number, counted from the first; less than all if one is not there any more.
  size_t HoldContributions();
  void ReduceTo(const PeContext& context, size_t end);

  const ReductionKind kind_;
  const std::vector<ElementType> types_;
  const size_t own_index_;
  const Spans own_, result_;
  std::vector<Contribution> contributions_;
  std::vector<const char*> inputs_;
  size_t reduced_ = 0;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_REDUCER_H_
