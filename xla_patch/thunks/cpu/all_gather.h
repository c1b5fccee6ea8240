// All-gather (docs/protocol.md, "All-gather").
//
// Every member sends its operands to all others, which receive them in the final place: one message a pair, no rounds.
// An operand may be this member's part of the result; any other overlap costs a private copy.
#ifndef XLA_SHMEM_THUNKS_CPU_ALL_GATHER_H_
#define XLA_SHMEM_THUNKS_CPU_ALL_GATHER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "xla_patch/thunks/cpu/collective_operation.h"

namespace xla_shmem {

struct AllGatherArguments {
  MessageKey key;
  std::string name;        // of the HLO instruction, for errors
  std::vector<int> group;  // PEs in group order, with the local PE
  std::vector<const char*> operands;
  std::vector<char*> results;
  std::vector<size_t> bytes;  // of each operand; result i is group.size() * bytes[i], in group order
};

class AllGatherOperation : public CollectiveOperation {
 public:
  AllGatherOperation(const PeContext* context, AllGatherArguments arguments);
};

// Within this process if the whole group is, else by messages.
std::unique_ptr<Operation> MakeOperation(const PeContext* context, AllGatherArguments arguments);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_ALL_GATHER_H_
