#include "xla/backends/gpu/shmem/shmem_backend_assignment.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "xla/backends/gpu/shmem/shmem_flag.h"
#include "xla/backends/gpu/shmem/shmem_runtime.h"
#include "xla/backends/gpu/transforms/collectives/shmem/job_topology.h"
#include "xla/backends/gpu/transforms/collectives/shmem/mosaic_nvshmem.h"
#include "xla/backends/gpu/transforms/collectives/shmem/shmem_backend_assigner.h"
#include "xla/hlo/ir/hlo_instruction.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/hlo/pass/hlo_pass_pipeline.h"
#include "xla/service/compilation_stats.h"
#include "xla/service/gpu_topology.h"
#include "xla/service/hlo_module_config.h"
#include "xla/tsl/platform/status_macros.h"
#include "xla_patch/assigner/cost_model.h"
#include "xla_patch/assigner/topology.h"
#include "xla_patch/assigner/transport.h"
#include "xla_patch/options/environment.h"
#include "xla_patch/types/status.h"

namespace xla::gpu {
namespace {

// The GpuTopology of a JIT compilation counts every GPU that the driver shows as one of this process, even if JAX gives
// each process one of them. So the devices of this job come from the runtime.
absl::StatusOr<xla_shmem::Topology> TopologyFor(const HloModule& module, const GpuTopology& described,
                                                int64_t slice_size, std::optional<int64_t> nvlink_domain) {
  const std::vector<RunningDevice> running = ShmemRuntime::Get().Devices();
  const int64_t num_devices = NumJobDevices(module);
  if (num_devices <= static_cast<int64_t>(running.size())) return RunningTopology(running, nvlink_domain);
  // Both counts are -1 if hosts differ.
  const int64_t per_host = std::max(described.num_devices_per_host(), 0);
  const int64_t per_domain = nvlink_domain.value_or(slice_size);
  return UniformTopology(std::max<int64_t>(described.number_of_devices(), num_devices), per_host,
                         nvlink_domain == 0 ? per_host : per_domain);
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
  RETURN_IF_ERROR(RefuseMosaicWithNvshmem(*module));
  const xla_shmem::Result<xla_shmem::EnvironmentOptions>& options = ShmemOptions();
  if (!options.ok()) return absl::InvalidArgumentError(options.message());
  if (!ShmemRuntime::Get().failure().empty()) return absl::OkStatus();
  // No other PE; in a job of one GPU NVSHMEM does not run either.
  if (config.replica_count() * config.num_partitions() < 2) return absl::OkStatus();
  ShmemJob job;
  job.rules = options->rules;
  job.rules.gpu = GenerationFor(topology);
  ASSIGN_OR_RETURN(job.topology, TopologyFor(*module, topology, slice_size, options->nvlink_domain));
  // The runtime does not start unless every PE reaches every other.
  job.transport = xla_shmem::PatchedXlaTransport({});
  job.transport.reach.reset();
  HloPassPipeline pipeline("shmem-backend-assignment", stats);
  pipeline.AddPass<ShmemBackendAssigner>(std::move(job));
  return pipeline.Run(module, {HloInstruction::kMainExecutionThread}).status();
}

}  // namespace xla::gpu
