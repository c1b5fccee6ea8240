#ifndef XLA_SHMEM_HLO_REWRITE_ALIASED_PARAMETERS_H_
#define XLA_SHMEM_HLO_REWRITE_ALIASED_PARAMETERS_H_

#include <vector>

#include "xla_patch/hlo/proto/module_reader.h"
#include "xla_patch/hlo/rewrite/editor.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::hlo {

// Parameters that share their buffer with a result (donation), for releases of XLA that drop the aliasing when a
// transform returns the module. XLA has already removed copies because of it, so instructions may write to a parameter
// that then belongs to the caller, and return it as the result. They read a copy of the parameter instead; the price is
// the copy, and the memory that donation would have saved.
//
// Adds a copy under the parameter's id, so that its users need no change, and the parameter under a new id before it.
// An error if there is one that cannot be copied.
Status CopyAliasedParameters(const Module& module, std::vector<InstructionEdit>* edits);

// Whether the module has such parameters.
bool HasAliasedParameters(const Module& module);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_REWRITE_ALIASED_PARAMETERS_H_
