#include "xla_patch/hlo/rewrite/unsupported_form.h"

namespace xla_shmem::hlo {

Unsupported UnsupportedForm(const Collective& collective, Lowering lowering) {
  if (lowering == Lowering::kCpu && IsPair(collective)) {
    return "start/done pairs are lowered for GPU only";
  }
  return collective.unsupported_form;
}

}  // namespace xla_shmem::hlo
