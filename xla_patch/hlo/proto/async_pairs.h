#ifndef XLA_SHMEM_HLO_PROTO_ASYNC_PAIRS_H_
#define XLA_SHMEM_HLO_PROTO_ASYNC_PAIRS_H_

#include <vector>

#include "xla_patch/hlo/proto/collective.h"
#include "xla_patch/hlo/proto/module_reader.h"
#include "xla_patch/hlo/proto/schedule.h"

namespace xla_shmem::hlo {

// Finds the dones of these starts, all issued in `computation`, and whether any work runs between start and done. A
// start that is not used by exactly one done gets none, and its form is unsupported.
void LinkDones(const Module& module, const Computation& computation, const InstructionIndex& index,
               const Schedule& schedule, const std::vector<Collective*>& collectives);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_ASYNC_PAIRS_H_
