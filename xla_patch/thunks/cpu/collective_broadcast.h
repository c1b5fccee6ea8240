// Collective-broadcast (docs/protocol.md, "Broadcast").
//
// The first PE of a group sends its operands to all others of the group. The results of a PE that is in no group are
// zeros, as XLA defines. Results may overlap operands in any way.
#ifndef XLA_SHMEM_THUNKS_CPU_COLLECTIVE_BROADCAST_H_
#define XLA_SHMEM_THUNKS_CPU_COLLECTIVE_BROADCAST_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "xla_patch/thunks/cpu/collective_operation.h"

namespace xla_shmem {

struct CollectiveBroadcastArguments {
  MessageKey key;
  std::string name;        // of the HLO instruction, for errors
  std::vector<int> group;  // PEs, the root first; empty if the local PE is in no group
  std::vector<const char*> operands;
  std::vector<char*> results;
  std::vector<size_t> bytes;  // of each operand and of its result
};

class CollectiveBroadcastOperation : public CollectiveOperation {
 public:
  CollectiveBroadcastOperation(const PeContext* context, CollectiveBroadcastArguments arguments);
};

// Within this process if the whole group is, else by messages.
std::unique_ptr<Operation> MakeOperation(const PeContext* context, CollectiveBroadcastArguments arguments);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_COLLECTIVE_BROADCAST_H_
