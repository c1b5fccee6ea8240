#include "xla/backends/gpu/shmem/shmem_backend_assignment.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "xla/backends/gpu/shmem/shmem_flag.h"
#include "xla/backends/gpu/shmem/shmem_runtime.h"
#include "xla/backends/gpu/transforms/collectives/shmem/job_topology.h"
#include "xla/backends/gpu/transforms/collectives/shmem/shmem_backend_assigner.h"
#include "xla/backends/gpu/transforms/collectives/shmem/status_macros.h"
#include "xla/hlo/ir/hlo_computation.h"
#include "xla/hlo/ir/hlo_instruction.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/hlo/ir/hlo_opcode.h"
#include "xla/hlo/pass/hlo_pass_pipeline.h"
#include "xla/service/compilation_stats.h"
#include "xla/service/gpu_topology.h"
#include "xla/service/hlo_module_config.h"
#include "xla_patch/assigner/cost_model.h"
#include "xla_patch/assigner/topology.h"
#include "xla_patch/assigner/transport.h"
#include "xla_patch/options/environment.h"
#include "xla_patch/types/status.h"

namespace xla::gpu {
namespace {

// As XLA's memory space assignment recognises them.
bool CallsNvshmem(const HloInstruction& instruction) {
  return instruction.opcode() == HloOpcode::kCustomCall &&
         (instruction.custom_call_target() == "mosaic_gpu" || instruction.custom_call_target() == "mosaic_gpu_v2") &&
         absl::StrContains(instruction.raw_backend_config_string(), "nvshmem");
}

// Unimplemented if a Mosaic kernel of the module calls NVSHMEM. Its buffers would have to come from the NVSHMEM that
// upstream starts (XLA 5a9e73c), and a process can start NVSHMEM once.
absl::Status RefuseMosaicWithNvshmem(const HloModule& module) {
  for (const HloComputation* computation : module.computations()) {
    for (const HloInstruction* instruction : computation->instructions()) {
      if (!CallsNvshmem(*instruction)) continue;
      return absl::UnimplementedError(
          absl::StrCat(instruction->name(), " (", instruction->custom_call_target(),
                       ") calls NVSHMEM from a Mosaic kernel. With --xla_gpu_experimental_enable_nvshmem this jaxlib "
                       "starts NVSHMEM for collectives only; run the program with a stock jaxlib"));
    }
  }
  return absl::OkStatus();
}

// Of a module for the GPUs of other machines.
absl::StatusOr<xla_shmem::Topology> DescribedTopology(const HloModule& module, const GpuTopology& described,
                                                      int64_t slice_size, std::optional<int64_t> nvlink_domain) {
  // Both counts are -1 if hosts differ.
  const int64_t per_host = std::max(described.num_devices_per_host(), 0);
  return UniformTopology(std::max<int64_t>(described.number_of_devices(), NumJobDevices(module)), per_host,
                         nvlink_domain == 0 ? per_host : nvlink_domain.value_or(slice_size));
}

xla_shmem::GpuGeneration GenerationFor(const GpuTopology& described) {
  if (!described.has_gpu_target_config()) return xla_shmem::GpuGeneration::kUnknown;
  const auto* capability =
      described.gpu_target_config().device_description.gpu_compute_capability().cuda_compute_capability();
  return capability == nullptr ? xla_shmem::GpuGeneration::kUnknown : xla_shmem::GpuGenerationOf(capability->major);
}

}  // namespace

absl::Status AssignShmemBackends(HloModule* module, const GpuTopology& topology, int64_t slice_size,
                                 CompilationStats* stats) {
  const HloModuleConfig& config = module->config();
  if (!IsNvshmemRequested(config.debug_options())) return absl::OkStatus();
  SHMEM_RETURN_IF_ERROR(RefuseMosaicWithNvshmem(*module));
  const xla_shmem::Result<xla_shmem::EnvironmentOptions>& options = ShmemOptions();
  if (!options.ok()) return absl::InvalidArgumentError(options.message());
  if (!ShmemRuntime::Get().failure().empty()) return absl::OkStatus();
  // No other PE; in a job of one GPU NVSHMEM does not run either.
  if (config.replica_count() * config.num_partitions() < 2) return absl::OkStatus();
  ShmemJob job;
  job.rules = options->rules;
  job.rules.gpu = GenerationFor(topology);
  // The GpuTopology of a JIT compilation counts every GPU that the driver shows as one of this process, even if JAX
  // gives each process one of them. So the devices of this job come from the runtime.
  job.topology = ShmemRuntime::Get().topology();
  if (job.topology.num_devices() < NumJobDevices(*module)) {
    SHMEM_ASSIGN_OR_RETURN(job.topology, DescribedTopology(*module, topology, slice_size, options->nvlink_domain));
  }
  // The runtime does not start unless every PE reaches every other.
  job.transport = xla_shmem::PatchedXlaTransport({});
  job.transport.reach.reset();
  HloPassPipeline pipeline("shmem-backend-assignment", stats);
  pipeline.AddPass<ShmemBackendAssigner>(std::move(job));
  return pipeline.Run(module, {HloInstruction::kMainExecutionThread}).status();
}

absl::StatusOr<bool> ShmemBackendAssignment::RunImpl(HloModule* module,
                                                     const absl::flat_hash_set<absl::string_view>& /*threads*/) {
  SHMEM_RETURN_IF_ERROR(AssignShmemBackends(module, topology_, slice_size_, /*stats=*/nullptr));
  return IsNvshmemRequested(module->config().debug_options());  // it may have changed
}

}  // namespace xla::gpu
