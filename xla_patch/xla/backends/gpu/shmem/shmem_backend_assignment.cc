#include "xla/backends/gpu/shmem/shmem_backend_assignment.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "xla/backends/gpu/shmem/shmem_runtime.h"
#include "xla/backends/gpu/transforms/collectives/shmem/job_topology.h"
#include "xla/backends/gpu/transforms/collectives/shmem/shmem_backend_assigner.h"
#include "xla/hlo/ir/hlo_instruction.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/hlo/pass/hlo_pass_pipeline.h"
#include "xla/service/compilation_stats.h"
#include "xla/service/gpu_topology.h"
#include "xla/tsl/platform/status_macros.h"
#include "xla_patch/assigner/transport.h"

namespace xla::gpu {

absl::Status AssignShmemBackends(HloModule* module, const GpuTopology& topology, int64_t slice_size,
                                 CompilationStats* stats) {
  if (!module->config().debug_options().xla_gpu_experimental_enable_nvshmem() ||
      !ShmemRuntime::Get().failure().empty()) {
    return absl::OkStatus();
  }
  ShmemJob job;
  // Both counts of the topology are -1 where its hosts differ.
  ASSIGN_OR_RETURN(job.topology,
                   UniformTopology(std::max<int64_t>(topology.number_of_devices(), NumJobDevices(*module)),
                                   std::max(topology.num_devices_per_host(), 0), slice_size));
  // The runtime does not come up unless every PE reaches every other.
  job.transport = xla_shmem::GpuTransport({});
  job.transport.reach.reset();
  HloPassPipeline pipeline("shmem-backend-assignment", stats);
  pipeline.AddPass<ShmemBackendAssigner>(std::move(job));
  return pipeline.Run(module, {HloInstruction::kMainExecutionThread}).status();
}

}  // namespace xla::gpu
