#ifndef XLA_SHMEM_HLO_REWRITE_UNSUPPORTED_FORM_H_
#define XLA_SHMEM_HLO_REWRITE_UNSUPPORTED_FORM_H_

#include "xla_patch/assigner/unsupported.h"
#include "xla_patch/hlo/proto/collective.h"
#include "xla_patch/hlo/rewrite/pass_options.h"

namespace xla_shmem::hlo {

// Why this collective cannot be replaced for that platform, whatever the transport.
Unsupported UnsupportedForm(const Collective& collective, Lowering lowering);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_REWRITE_UNSUPPORTED_FORM_H_
