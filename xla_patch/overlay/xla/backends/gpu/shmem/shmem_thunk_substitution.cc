#include "xla/backends/gpu/shmem/shmem_thunk_substitution.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/log/log.h"
#include "absl/status/statusor.h"
#include "xla/backends/gpu/runtime/collective_thunk.h"
#include "xla/backends/gpu/runtime/thunk.h"
#include "xla/backends/gpu/shmem/shmem_collective_thunk.h"
#include "xla/backends/gpu/shmem/shmem_runtime.h"
#include "xla/backends/gpu/transforms/collectives/shmem/collective_backend_config.h"
#include "xla/backends/gpu/transforms/collectives/shmem/job_topology.h"
#include "xla/backends/gpu/transforms/collectives/shmem/module_collectives.h"
#include "xla/backends/gpu/transforms/collectives/shmem/status_macros.h"
#include "xla/hlo/ir/hlo_computation.h"
#include "xla/hlo/ir/hlo_instruction.h"
#include "xla/service/hlo_module_config.h"
#include "xla_patch/assigner/topology.h"
#include "xla_patch/assigner/transport.h"
#include "xla_patch/hlo/rewrite/call_arguments.h"

namespace xla::gpu {
namespace {

// Collectives with backend NVSHMEM, by the names that their thunks may have.
using ShmemCollectives = absl::flat_hash_map<std::string, ShmemCollective>;

bool HasShmemCollectives(const HloModule& module) {
  for (const HloComputation* computation : module.computations()) {
    for (const HloInstruction* instruction : computation->instructions()) {
      if (IsOnNvshmem(*instruction)) return true;
    }
  }
  return false;
}

// The job that the module was compiled for: this one, or one that it does not run in.
absl::StatusOr<xla_shmem::Topology> TopologyOf(const HloModule& module) {
  const xla_shmem::Topology running = ShmemRuntime::Get().topology();
  const int64_t num_devices = NumJobDevices(module);
  return num_devices <= running.num_devices() ? running : UniformTopology(num_devices, 1, num_devices);
}

absl::StatusOr<ShmemCollectives> FindShmemCollectives(const HloModule& module) {
  SHMEM_ASSIGN_OR_RETURN(const xla_shmem::Topology topology, TopologyOf(module));
  ShmemCollectives collectives;
  const auto add = [&](const ModuleCollective& found) {
    if (!IsOnNvshmem(*found.op)) return absl::OkStatus();
    const xla_shmem::CollectiveSpec& spec = found.collective.spec;
    xla_shmem::Unsupported unsupported = spec.unsupported_participants;
    if (!unsupported.has_value()) unsupported = xla_shmem::hlo::UnsupportedOnGpu(found.collective);
    if (!unsupported.has_value()) {
      unsupported = xla_shmem::UnsupportedWithinReach(spec, xla_shmem::PatchedXlaTransport({}));
    }
    if (spec.module.num_nvlink_domains == 0) unsupported = "the job lacks one of the module's devices";
    if (unsupported.has_value()) {
      // Our assigner does not choose NVSHMEM for this collective, so the user did.
      LOG(WARNING) << spec.name << " asks for NVSHMEM and runs on NCCL: " << *unsupported;
      return absl::OkStatus();
    }
    for (const HloInstruction* named : {found.op, found.issued}) {
      collectives[std::string(named->name())] = {
          spec, xla_shmem::hlo::CallArguments(found.module, found.collective, topology, spec, 0),
          module.config().static_device_assignment()};
    }
    return absl::OkStatus();
  };
  SHMEM_RETURN_IF_ERROR(VisitCollectives(module, topology, add));
  return collectives;
}

// Those that XLA runs on another stream than the rest of the program.
absl::flat_hash_set<const Thunk*> FindAsync(const ThunkSequence& thunks) {
  absl::flat_hash_set<const Thunk*> found;
  const auto add_nested = [&](const Thunk* start) {
    if (start->kind() != Thunk::kAsyncStart) return;
    start->Walk([&](const Thunk* nested) { found.insert(nested); });
  };
  for (const std::unique_ptr<Thunk>& thunk : thunks) std::as_const(*thunk).Walk(add_nested);
  return found;
}

}  // namespace

absl::Status UseShmemThunks(const HloModule* module, ThunkSequence* thunks) {
  if (module == nullptr || !HasShmemCollectives(*module)) return absl::OkStatus();
  std::string failure = ShmemRuntime::Get().failure();
  if (!module->config().has_static_device_assignment()) failure = "it was compiled without a device assignment";
  if (!failure.empty()) {
    LOG(WARNING) << module->name() << " was compiled for NVSHMEM and runs on NCCL: " << failure;
    return absl::OkStatus();
  }
  SHMEM_ASSIGN_OR_RETURN(ShmemCollectives collectives, FindShmemCollectives(*module));
  const absl::flat_hash_set<const Thunk*> async = FindAsync(*thunks);
  return thunks->TransformNested([&](std::unique_ptr<Thunk> thunk) -> absl::StatusOr<std::unique_ptr<Thunk>> {
    const auto found = collectives.find(thunk->thunk_info().profile_annotation);
    if (found == collectives.end() || dynamic_cast<CollectiveThunk*>(thunk.get()) == nullptr) return thunk;
    found->second.is_async = async.contains(thunk.get());
    std::unique_ptr<CollectiveThunk> upstream(static_cast<CollectiveThunk*>(thunk.release()));
    return ShmemCollectiveThunk::Create(std::move(upstream), found->second);
  });
}

}  // namespace xla::gpu
