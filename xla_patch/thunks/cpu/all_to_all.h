// All-to-all (docs/protocol.md, "All-to-all").
//
// Every member sends one message to every other, with all buffers for that member. The array form splits one buffer
// among the members, the tuple form has one buffer for each; they differ only in the addresses. Results may overlap
// operands in any way.
#ifndef XLA_SHMEM_THUNKS_CPU_ALL_TO_ALL_H_
#define XLA_SHMEM_THUNKS_CPU_ALL_TO_ALL_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "xla_patch/thunks/cpu/collective_operation.h"

namespace xla_shmem {

struct AllToAllArguments {
  MessageKey key;
  std::string name;                                // of the HLO instruction, for errors
  std::vector<int> group;                          // PEs in group order, with the local PE
  std::vector<std::vector<const char*>> operands;  // [member][buffer]: goes to that member
  std::vector<std::vector<char*>> results;         // [member][buffer]: comes from that member
  std::vector<size_t> bytes;                       // of each buffer
};

class AllToAllOperation : public CollectiveOperation {
 public:
  AllToAllOperation(const PeContext* context, AllToAllArguments arguments);
};

// Within this process if the whole group is, else by messages.
std::unique_ptr<Operation> MakeOperation(const PeContext* context, AllToAllArguments arguments);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_ALL_TO_ALL_H_
