#include "xla_patch/hlo/rewrite/unsupported_form.h"

#include <string>

namespace xla_shmem::hlo {

Unsupported UnsupportedForm(const Collective& collective, Lowering lowering) {
  if (lowering == Lowering::kCpu && IsPair(collective)) {
    return "start/done pairs are lowered for GPU only";
  }
  const CollectiveOpInfo& info = InfoOf(collective.spec.op);
  if (lowering == Lowering::kGpu && !info.Has(op_trait::kOnGpu)) {
    return std::string(info.name) + " is lowered for CPU only";
  }
  return collective.unsupported_form;
}

}  // namespace xla_shmem::hlo
