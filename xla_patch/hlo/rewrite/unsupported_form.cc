#include "xla_patch/hlo/rewrite/unsupported_form.h"

namespace xla_shmem::hlo {

Unsupported UnsupportedForm(const Collective& collective, Lowering lowering) {
  if (lowering == Lowering::kCpu && IsPair(collective)) {
    return "start/done pairs are lowered for GPU only";
  }
  if (lowering == Lowering::kGpu && !collective.has_s64_numbers && !collective.unsupported_form.has_value()) {
    return "its offsets and sizes are not s64";
  }
  return collective.unsupported_form;
}

}  // namespace xla_shmem::hlo
