#ifndef XLA_SHMEM_HLO_REWRITE_FORM_H_
#define XLA_SHMEM_HLO_REWRITE_FORM_H_

#include <string>

#include "xla_patch/hlo/proto/collective.h"
#include "xla_patch/hlo/rewrite/pass_options.h"

namespace xla_shmem::hlo {

// Written as two instructions, a start and a done.
bool IsPair(const Collective& collective);

// Why this collective cannot be replaced for that platform whatever the transport, or "".
std::string FormVeto(const Collective& collective, Lowering lowering);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_REWRITE_FORM_H_
