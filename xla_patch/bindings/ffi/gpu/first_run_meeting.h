// The first run of a collective, for which the threads of a process's GPUs meet (thunks/gpu/local_meetings.h).
#ifndef XLA_SHMEM_BINDINGS_FFI_GPU_FIRST_RUN_MEETING_H_
#define XLA_SHMEM_BINDINGS_FFI_GPU_FIRST_RUN_MEETING_H_

#include "xla_patch/bindings/ffi/gpu/call_frame.h"
#include "xla_patch/bindings/ffi/gpu/decoded_call.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

// Meets the threads of this process's other members of the collective, before and behind its first run. A call that is
// only captured meets nobody: XLA launches the graph later.
class FirstRunMeeting {
 public:
  // Meets before the run.
  FirstRunMeeting(const GpuCallFrame& frame, gpu::CudaStream stream);
  // Meets behind it.
  ~FirstRunMeeting();
  FirstRunMeeting(const FirstRunMeeting&) = delete;
  FirstRunMeeting& operator=(const FirstRunMeeting&) = delete;

  // An error if not all have come before the run; it must then not begin.
  const Status& status() const { return status_; }

 private:
  const DecodedCall& call_;
  bool is_held_ = false;
  Status status_;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_FFI_GPU_FIRST_RUN_MEETING_H_
