// Computations that XLA:GPU puts around a collective: those of an async-start, and of a fusion.
#ifndef XLA_SHMEM_HLO_PROTO_WRAPPERS_H_
#define XLA_SHMEM_HLO_PROTO_WRAPPERS_H_

#include "xla_patch/hlo/proto/collective.h"
#include "xla_patch/hlo/proto/module_reader.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::hlo {

// Where a collective in the computation of a fusion is issued: the fusion, or the async-start around it. If the fusion
// does more, the collective stays where it is, and its form is unsupported.
void FindFusion(const Module& module, Collective* collective);

// For a fused collective whose fields are those of `op`: takes name, place and operands from its fusion. The form is
// unsupported if the fusion does not pass them as they are. An error if the bytes are malformed.
Status Unfuse(const Module& module, Collective* collective);

// For a kWrapped collective whose fields are those of `op`, or of its fusion: takes name, place, operands and aliasing
// from its async-start. The form is unsupported if the pair does more than a native start/done pair; the collective
// then loses its done, which may belong to others too. An error if the bytes are malformed.
Status Unwrap(const Module& module, Collective* collective);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_WRAPPERS_H_
