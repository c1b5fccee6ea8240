#ifndef XLA_SHMEM_BINDINGS_FFI_GPU_THREAD_MEETING_H_
#define XLA_SHMEM_BINDINGS_FFI_GPU_THREAD_MEETING_H_

#include "xla_patch/bindings/ffi/gpu/decoded_call.h"
#include "xla_patch/thunks/gpu/local_meetings.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

// Waits for the threads of the call's other GPUs of this process. For a thread that is late a line is printed after
// 10 s, and again each time the wait has become twice as long. An error if the job fails, also by the deadline.
Status MeetThreads(const LocalMeetings::Meeting& meeting, const DecodedCall& call);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_FFI_GPU_THREAD_MEETING_H_
