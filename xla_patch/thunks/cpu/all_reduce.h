// All-reduce (docs/protocol.md, "All-reduce").
//
// Small messages use one-shot: every member sends its operands to all others, and each reduces all of them, in group
// order. Larger messages use two-shot: every member owns one part of the buffers. The members send the parts to their
// owners, which reduce them in group order and send the results to all, piece by piece. In both cases all members
// compute the same bits. Results may share memory with operands in any way.
#ifndef XLA_SHMEM_THUNKS_CPU_ALL_REDUCE_H_
#define XLA_SHMEM_THUNKS_CPU_ALL_REDUCE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "xla_patch/thunks/cpu/collective_operation.h"
#include "xla_patch/thunks/reduction.h"

namespace xla_shmem {

struct AllReduceArguments {
  MessageKey key;
  std::string name;  // of the HLO instruction, for errors
  ReductionKind reduction = ReductionKind::kSum;
  std::vector<int> group;  // PEs in group order, with the local PE
  std::vector<ElementType> types;
  std::vector<const char*> operands;
  std::vector<char*> results;
  std::vector<size_t> bytes;
};

// The largest operands, in padded bytes, that use one-shot. A PE then sends (n-1) times the operands instead of
// 2(n-1)/n times, in one exchange instead of two.
size_t OneShotLimitBytes(size_t group_size);

class AllReduceOperation : public CollectiveOperation {
 public:
  AllReduceOperation(const PeContext* context, AllReduceArguments arguments);

 private:
  void OneShot(const AllReduceArguments& arguments, bool in_place);
  void TwoShot(const AllReduceArguments& arguments);
};

// Within this process if the whole group is, else by messages.
std::unique_ptr<Operation> MakeOperation(const PeContext* context, AllReduceArguments arguments);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_ALL_REDUCE_H_
