// Reduce-scatter (docs/protocol.md, "Reduce-scatter").
//
// Every member sends to each other member the part that this member reduces, and reduces its own part in group order.
// The results may overlap the operands in any way.
#ifndef XLA_SHMEM_THUNKS_CPU_REDUCE_SCATTER_H_
#define XLA_SHMEM_THUNKS_CPU_REDUCE_SCATTER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "xla_patch/thunks/cpu/collective_operation.h"
#include "xla_patch/thunks/reduction.h"

namespace xla_shmem {

struct ReduceScatterArguments {
  MessageKey key;
  std::string name;  // of the HLO instruction, for errors
  ReductionKind reduction = ReductionKind::kSum;
  std::vector<int> group;  // PEs in group order, with the local PE
  std::vector<ElementType> types;
  std::vector<const char*> operands;
  std::vector<char*> results;
  std::vector<size_t> bytes;  // of each result; operand i is group.size() * bytes[i], in group order
};

class ReduceScatterOperation : public CollectiveOperation {
 public:
  ReduceScatterOperation(const PeContext* context, ReduceScatterArguments arguments);
};

// Within this process if the whole group is, else by messages.
std::unique_ptr<Operation> MakeOperation(const PeContext* context, ReduceScatterArguments arguments);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_REDUCE_SCATTER_H_
