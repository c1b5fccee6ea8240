// The part within an NVLink domain of a permute that is divided (hlo/rewrite/hierarchical_collective.h). What came from
// other domains is an operand.
#ifndef XLA_SHMEM_THUNKS_CPU_PERMUTE_PARTS_H_
#define XLA_SHMEM_THUNKS_CPU_PERMUTE_PARTS_H_

#include <cstddef>
#include <memory>
#include <string>

#include "xla_patch/thunks/cpu/collective_operation.h"

namespace xla_shmem {

struct PermutePartsArguments {
  MessageKey key;
  std::string name;  // of the HLO instruction, for errors
  int source = -1;   // PE of this domain that sends to the local PE, -1: none
  int target = -1;   // PE of this domain that the local PE sends to, -1: none
  const char* operand = nullptr;
  const char* received = nullptr;  // from another domain; null: nothing, and without a source the result is zeros
  char* result = nullptr;
  size_t bytes = 0;
};

std::unique_ptr<Operation> MakeOperation(const PeContext* context, PermutePartsArguments arguments);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_PERMUTE_PARTS_H_
