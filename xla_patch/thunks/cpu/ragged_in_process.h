// A ragged all-to-all whose members are all PEs of this process (in_process_collective.h).
#ifndef XLA_SHMEM_THUNKS_CPU_RAGGED_IN_PROCESS_H_
#define XLA_SHMEM_THUNKS_CPU_RAGGED_IN_PROCESS_H_

#include <memory>

#include "xla_patch/shm/operation.h"
#include "xla_patch/thunks/cpu/pe_context.h"
#include "xla_patch/thunks/cpu/ragged_all_to_all.h"

namespace xla_shmem {

// `arguments` as for RaggedAllToAllOperation; operands that overlap the result are copied here.
std::unique_ptr<Operation> MakeRaggedInProcess(const PeContext* context, RaggedAllToAllArguments arguments);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_RAGGED_IN_PROCESS_H_
