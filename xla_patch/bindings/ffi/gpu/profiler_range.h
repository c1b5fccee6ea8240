// Names what a handler enqueues for NVIDIA's profilers, by NVTX (https://nvidia.github.io/NVTX).
#ifndef XLA_SHMEM_BINDINGS_FFI_GPU_PROFILER_RANGE_H_
#define XLA_SHMEM_BINDINGS_FFI_GPU_PROFILER_RANGE_H_

#include "xla_patch/bindings/ffi/gpu/call_frame.h"
#include "xla_patch/types/collective_op.h"

namespace xla_shmem {

// A range of domain "xla-shmem" on this thread, while it exists: op, name of the call and the PEs that this one
// exchanges with, and as payload the bytes of the operands. Nsight Systems projects it onto the GPU work that is
// enqueued within. Without a profiler it costs one load; without NVTX's headers at build time it does nothing.
class ProfilerRange {
 public:
  ProfilerRange(const GpuCallFrame& frame, CollectiveOp op);
  ~ProfilerRange();
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;

 private:
  [[maybe_unused]] bool is_open_ = false;  // without NVTX nothing reads it
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_FFI_GPU_PROFILER_RANGE_H_
