// Collective-permute (docs/protocol.md, "Permute").
//
// Each PE sends its operands to at most one PE and receives its results from at most one. A PE may send to itself, and
// the results of a PE without a source are zeros, as XLA defines. There is no barrier. Several operands (combined
// permutes) travel as one message. Results may share memory with operands in any way.
#ifndef XLA_SHMEM_THUNKS_CPU_COLLECTIVE_PERMUTE_H_
#define XLA_SHMEM_THUNKS_CPU_COLLECTIVE_PERMUTE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "xla_patch/thunks/cpu/collective_operation.h"

namespace xla_shmem {

struct PermuteArguments {
  MessageKey key;
  std::string name;  // of the HLO instruction, for errors
  int source = -1;   // PE that sends to the local PE, -1: none
  int target = -1;   // PE that the local PE sends to, -1: none
  std::vector<const char*> operands;
  std::vector<char*> results;
  std::vector<size_t> bytes;  // of each operand and of its result
  std::vector<int> pairs;     // source and target of all pairs, one after the other
};

class PermuteOperation : public CollectiveOperation {
 public:
  PermuteOperation(const PeContext* context, PermuteArguments arguments);
};

// Within this process if all PEs are whose pairs lead to this PE's, else by messages.
std::unique_ptr<Operation> MakeOperation(const PeContext* context, PermuteArguments arguments);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_COLLECTIVE_PERMUTE_H_
