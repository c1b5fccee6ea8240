// Records the collectives of this process's GPUs as runtime/observe does those of its CPU devices.
#ifndef XLA_SHMEM_RUNTIME_GPU_RECORDING_H_
#define XLA_SHMEM_RUNTIME_GPU_RECORDING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "xla_patch/nvshmem/gpu/device.h"
#include "xla_patch/runtime/observe/observer.h"
#include "xla_patch/thunks/gpu/gpu_runtime.h"
#include "xla_patch/thunks/gpu/timeline.h"

namespace xla_shmem {

// Starts to record the collectives of this process, `process`, with these PEs of the job; to be called once, when all
// devices have started. `processes`: of the job on this host. Returns one sentence for each part that does not work.
std::vector<std::string> StartGpuObserver(observe::ObserverOptions options, int process,
                                          const std::vector<int>& processes, const std::vector<int>& pes);

// Prints the statistics, once, and writes the trace so far. To be called while Python still runs.
void ReportGpuObserver();

// One execution of a collective.
struct GpuExecution {
  GpuRuntime* gpu;
  uint64_t operation;  // as in observe::Site
  const std::string& name;
  uint64_t bytes;  // of the operands
};

// Follows the execution that begins with this call. Null if nothing is recorded, and in a call that `stream` only
// captures: a CUDA graph runs without us. `site`: describes the collective, at its first execution.
std::shared_ptr<gpu::Follower> RecordExecution(const GpuExecution& execution, gpu::CudaStream stream,
                                               const std::function<observe::Site()>& site);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_RUNTIME_GPU_RECORDING_H_
