#include "xla_patch/hlo/rewrite/form.h"

namespace xla_shmem::hlo {

bool IsPair(const Collective& collective) {
  return collective.form == CollectiveForm::kStartDone || collective.form == CollectiveForm::kWrapped;
}

std::string FormVeto(const Collective& collective, Lowering lowering) {
  if (lowering == Lowering::kCpu && IsPair(collective)) {
    return "start/done pairs are lowered for GPU only";
  }
  const CollectiveOpInfo& info = InfoOf(collective.spec.op);
  if (lowering == Lowering::kGpu && !info.Has(op_trait::kOnGpu)) {
    return std::string(info.name) + " is lowered for CPU only";
  }
  return collective.obstacle;
}

}  // namespace xla_shmem::hlo
