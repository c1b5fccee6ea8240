#include "xla/backends/gpu/transforms/collectives/shmem/module_collectives.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "xla/backends/gpu/transforms/collectives/shmem/status_macros.h"
#include "xla/hlo/ir/hlo_computation.h"
#include "xla/service/hlo.pb.h"
#include "xla_patch/assigner/device_assignment.h"
#include "xla_patch/hlo/proto/collective_reader.h"
#include "xla_patch/hlo/proto/device_assignment.h"
#include "xla_patch/types/status.h"

namespace xla::gpu {
namespace {

namespace hlo = ::xla_shmem::hlo;

absl::Status Unreadable(const HloModule& module, const xla_shmem::Status& status) {
  return absl::InvalidArgumentError(absl::StrCat(module.name(), ": ", status.message()));
}

}  // namespace

absl::Status VisitCollectives(const HloModule& module, const xla_shmem::Topology& topology,
                              absl::FunctionRef<absl::Status(const ModuleCollective&)> visit) {
  absl::flat_hash_map<int64_t, HloInstruction*> by_id;  // ids differ across the computations of a module too
  for (HloComputation* computation : module.computations()) {
    for (HloInstruction* instruction : computation->instructions()) by_id[instruction->unique_id()] = instruction;
  }
  const std::string bytes = module.ToProto().SerializeAsString();
  const xla_shmem::Result<hlo::Module> read = hlo::ReadModule(bytes);
  if (!read.ok()) return Unreadable(module, read.status());
  const xla_shmem::Result<xla_shmem::DeviceAssignment> assignment = hlo::ReadAssignment(*read, topology);
  if (!assignment.ok()) return Unreadable(module, assignment.status());
  xla_shmem::Result<std::vector<hlo::Collective>> collectives = hlo::FindCollectives(*read, *assignment);
  if (!collectives.ok()) return Unreadable(module, collectives.status());
  const auto instruction = [&](int64_t index) {
    return index < 0 ? nullptr : by_id.at(read->instructions[static_cast<size_t>(index)].id);
  };
  const xla_shmem::ModulePlacement placement = hlo::PlaceModule(*assignment, topology);
  for (hlo::Collective& collective : *collectives) {
    if (collective.form == hlo::CollectiveForm::kLowered) continue;  // a custom call of the plugin's
    collective.spec.module = placement;
    SHMEM_RETURN_IF_ERROR(
        visit({*read, collective, instruction(static_cast<int64_t>(collective.op)),
               instruction(static_cast<int64_t>(collective.instruction)), instruction(collective.done)}));
  }
  return absl::OkStatus();
}

}  // namespace xla::gpu
