// Records the collectives of this process's GPU as runtime/observe does those of its CPU devices, and names them for
// profilers.
#ifndef XLA_SHMEM_BINDINGS_FFI_GPU_RECORDING_H_
#define XLA_SHMEM_BINDINGS_FFI_GPU_RECORDING_H_

#include <memory>
#include <string>
#include <vector>

#include "xla_patch/bindings/ffi/gpu/call_frame.h"
#include "xla_patch/runtime/observe/observer.h"
#include "xla_patch/thunks/gpu/timeline.h"
#include "xla_patch/types/collective_op.h"

namespace xla_shmem {

// Starts to record the collectives of `pe`; to be called once. `processes`: of the job on this host. Returns one
// sentence for each part that does not work.
std::vector<std::string> StartGpuObserver(observe::ObserverOptions options, int pe, const std::vector<int>& processes);

// Prints the statistics, once, and writes the trace so far. To be called while Python still runs.
void ReportGpuObserver();

// Follows the execution that begins with this call. Null if nothing is recorded, and in a call that `stream` only
// captures: a CUDA graph runs without us.
std::shared_ptr<gpu::Follower> RecordExecution(const GpuCallFrame& frame, CollectiveOp op, gpu::CudaStream stream);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_FFI_GPU_RECORDING_H_
