#include "xla/backends/gpu/transforms/collectives/shmem/shmem_backend_assigner.h"

#include <optional>
#include <string>

#include "absl/log/log.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "xla/backends/gpu/transforms/collectives/shmem/collective_backend_config.h"
#include "xla/backends/gpu/transforms/collectives/shmem/hlo_collective.h"
#include "xla/hlo/ir/hlo_computation.h"
#include "xla/hlo/ir/hlo_instruction.h"
#include "xla/tsl/platform/status_macros.h"
#include "xla/xla_data.pb.h"
#include "xla_patch/assigner/device_assignment.h"
#include "xla_patch/assigner/record.h"

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

absl::StatusOr<bool> Assign(const ShmemJob& job, const HloCollective& collective) {
  xla_shmem::CollectiveRecord record = xla_shmem::DescribeSpec(collective.spec);
  xla_shmem::DecideAndRecord(collective.spec, job.topology, job.rules, job.transport, collective.unsupported_form,
                             &record);
  VLOG(1) << record.name << " (" << record.op << ", " << record.dtype << "): " << record.lowered << ", " << record.rule
          << ": " << record.reason << (record.veto.empty() ? "" : absl::StrCat("; ", record.veto));
  const bool is_nvshmem = record.lowered == xla_shmem::BackendName(xla_shmem::Backend::kNvshmem);
  const xla_shmem::Backend backend = is_nvshmem ? xla_shmem::Backend::kNvshmem : xla_shmem::Backend::kDefault;
  ASSIGN_OR_RETURN(bool changed, SetCollectiveBackend(backend, collective.op));
  const xla_shmem::Attributes attributes = xla_shmem::RecordToAttributes(record);
  for (HloInstruction* instruction : {collective.op, collective.issued, collective.done}) {
    changed |= instruction != nullptr && Annotate(attributes, instruction);
  }
  return changed;
}

}  // namespace

absl::StatusOr<bool> ShmemBackendAssigner::RunImpl(HloModule* module,
                                                   const absl::flat_hash_set<absl::string_view>& execution_threads) {
  ASSIGN_OR_RETURN(const xla_shmem::DeviceAssignment assignment, ReadDeviceAssignment(*module, job_.topology));
  const xla_shmem::ModulePlacement placement = xla_shmem::PlaceModule(assignment.devices(), job_.topology);
  bool changed = false;
  for (HloComputation* computation : module->MakeNonfusionComputations(execution_threads)) {
    for (HloInstruction* instruction : computation->instructions()) {
      std::optional<HloCollective> collective = ReadCollective(instruction, assignment);
      if (!collective.has_value() || !xla_shmem::IsConsidered(collective->spec, job_.rules)) continue;
      collective->spec.module = placement;
      ASSIGN_OR_RETURN(const bool assigned, Assign(job_, *collective));
      changed |= assigned;
    }
  }
  return changed;
}

}  // namespace xla::gpu
