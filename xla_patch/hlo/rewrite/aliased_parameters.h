#ifndef XLA_SHMEM_HLO_REWRITE_ALIASED_PARAMETERS_H_
#define XLA_SHMEM_HLO_REWRITE_ALIASED_PARAMETERS_H_

#include <vector>

#include "xla_patch/hlo/proto/module_reader.h"
#include "xla_patch/hlo/rewrite/editor.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::hlo {

// Parameters that share their buffer with a result (donation), for a release of XLA that forgets about it when a
// transform returns the module. XLA has already left out copies for them, so instructions may write to a parameter that
// then belongs to the caller, and hand it out as the result. Reading a copy of the parameter instead mends that, for
// the price of the copy and of the memory that donation would have saved.
//
// Adds a copy under the parameter's id, so that its users need no change, and the parameter under a new id before it.
// An error if there is one that cannot be copied.
Status CopyAliasedParameters(const Module& module, std::vector<InstructionEdit>* edits);

// Whether the module has such parameters.
bool HasAliasedParameters(const Module& module);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_REWRITE_ALIASED_PARAMETERS_H_
