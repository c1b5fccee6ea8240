#ifndef XLA_SHMEM_HLO_REWRITE_UNSUPPORTED_BY_XLA_H_
#define XLA_SHMEM_HLO_REWRITE_UNSUPPORTED_BY_XLA_H_

#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/assigner/unsupported.h"
#include "xla_patch/hlo/rewrite/pass_options.h"

namespace xla_shmem::hlo {

// Why stock XLA:CPU refuses to compile `spec`. It does so after the hook, so the hook can replace the collective. None
// for other platforms.
Unsupported UnsupportedByXla(const CollectiveSpec& spec, Lowering lowering);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_REWRITE_UNSUPPORTED_BY_XLA_H_
