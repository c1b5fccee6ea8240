#include "xla/backends/gpu/transforms/collectives/shmem/shmem_backend_assigner.h"

#include <string>

#include "absl/log/log.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "xla/backends/gpu/transforms/collectives/shmem/collective_backend_config.h"
#include "xla/backends/gpu/transforms/collectives/shmem/module_collectives.h"
#include "xla/backends/gpu/transforms/collectives/shmem/status_macros.h"
#include "xla/hlo/ir/hlo_computation.h"
#include "xla/hlo/ir/hlo_instruction.h"
#include "xla/xla_data.pb.h"
#include "xla_patch/assigner/record.h"
#include "xla_patch/hlo/proto/record.h"

namespace xla::gpu {
namespace {

// Makes `attributes` the instruction's only ones of our prefix; true if that changed anything.
bool Annotate(const xla_shmem::Attributes& attributes, HloInstruction* instruction) {
  xla_shmem::Attributes current;
  FrontendAttributes merged;
  for (const auto& [key, value] : instruction->frontend_attributes().map()) {
    if (absl::StartsWith(key, xla_shmem::attribute::kPrefix)) {
      current[key] = value;
    } else {
      (*merged.mutable_map())[key] = value;
    }
  }
  if (current == attributes) return false;
  for (const auto& [key, value] : attributes) (*merged.mutable_map())[key] = value;
  instruction->set_frontend_attributes(merged);
  return true;
}

absl::StatusOr<bool> Assign(const ShmemJob& job, const ModuleCollective& found) {
  xla_shmem::CollectiveRecord record = xla_shmem::hlo::DescribeCollective(found.module, found.collective);
  xla_shmem::Unsupported unsupported = xla_shmem::hlo::UnsupportedOnGpu(found.collective);
  if (found.collective.fusion >= 0) unsupported = "XLA has made a kernel of its own of it";
  xla_shmem::DecideAndRecord(found.collective.spec, job.topology, job.rules, job.transport, {unsupported, {}}, &record);
  VLOG(1) << record.name << " (" << record.op << ", " << record.dtype << "): " << record.lowered << ", " << record.rule
          << ": " << record.reason << (record.veto.empty() ? "" : absl::StrCat("; ", record.veto));
  const bool is_nvshmem = record.lowered == xla_shmem::BackendName(xla_shmem::Backend::kNvshmem);
  const xla_shmem::Backend backend = is_nvshmem ? xla_shmem::Backend::kNvshmem : xla_shmem::Backend::kDefault;
  SHMEM_ASSIGN_OR_RETURN(bool changed, SetCollectiveBackend(backend, found.op));
  const xla_shmem::Attributes attributes = xla_shmem::RecordToAttributes(record);
  changed |= Annotate(attributes, found.op);
  if (found.done != nullptr) {  // a start without one belongs to several collectives
    changed |= Annotate(attributes, found.issued);
    changed |= Annotate(attributes, found.done);
  }
  return changed;
}

}  // namespace

absl::StatusOr<bool> ShmemBackendAssigner::RunImpl(HloModule* module,
                                                   const absl::flat_hash_set<absl::string_view>& execution_threads) {
  bool changed = false;
  SHMEM_RETURN_IF_ERROR(VisitCollectives(*module, job_.topology, [&](const ModuleCollective& found) -> absl::Status {
    const bool is_here =
        execution_threads.empty() || execution_threads.contains(found.op->parent()->execution_thread());
    if (!is_here || !xla_shmem::IsConsidered(found.collective.spec, job_.rules)) return absl::OkStatus();
    SHMEM_ASSIGN_OR_RETURN(const bool assigned, Assign(job_, found));
    changed |= assigned;
    return absl::OkStatus();
  }));
  return changed;
}

}  // namespace xla::gpu
