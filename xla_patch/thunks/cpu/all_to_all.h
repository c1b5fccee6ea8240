// All-to-all (docs/protocol.md, "All-to-all").
//
// One message from every member to every other, with all buffers that are for that one. The array form, in which one
// buffer is cut among the members, and the tuple form, with one buffer for each, differ in where the pieces lie only.
// Results may overlap operands in any way.
#ifndef XLA_SHMEM_THUNKS_CPU_ALL_TO_ALL_H_
#define XLA_SHMEM_THUNKS_CPU_ALL_TO_ALL_H_

#include <cstddef>
#include <string>
#include <vector>

#include "xla_patch/thunks/cpu/collective_operation.h"

namespace xla_shmem {

struct AllToAllArguments {
  MessageKey key;
  std::string name;                                // of the HLO instruction, for errors
  std::vector<int> group;                          // PEs in group order; ours is among them
  std::vector<std::vector<const char*>> operands;  // [member][buffer]: goes to that member
  std::vector<std::vector<char*>> results;         // [member][buffer]: comes from that member
  std::vector<size_t> bytes;                       // of each buffer
};

class AllToAllOperation : public CollectiveOperation {
 public:
  AllToAllOperation(const PeContext* context, AllToAllArguments arguments);
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_ALL_TO_ALL_H_
