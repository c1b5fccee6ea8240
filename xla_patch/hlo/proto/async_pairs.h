#ifndef XLA_SHMEM_HLO_PROTO_ASYNC_PAIRS_H_
#define XLA_SHMEM_HLO_PROTO_ASYNC_PAIRS_H_

#include <vector>

#include "xla_patch/hlo/proto/collective.h"
#include "xla_patch/hlo/proto/module_reader.h"
#include "xla_patch/hlo/proto/schedule.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::hlo {

// Finds the dones of these starts, all issued in `computation`, and whether any work runs between start and done. A
// start that is not used by exactly one done gets none, and its form is unsupported.
void LinkDones(const Module& module, const Computation& computation, const InstructionIndex& index,
               const Schedule& schedule, const std::vector<Collective*>& collectives);

// For a kWrapped collective whose fields are those of `op`: takes name, place, operands and aliasing from its
// async-start. The form is unsupported if the pair does more than a native start/done pair; the collective then loses
// its done, which may belong to others too. An error if the bytes are malformed.
Status Unwrap(const Module& module, Collective* collective);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_ASYNC_PAIRS_H_
