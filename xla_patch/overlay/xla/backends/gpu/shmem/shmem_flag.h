// The flag --xla_gpu_experimental_enable_nvshmem, also of releases whose DebugOptions has no field for it.
#ifndef XLA_BACKENDS_GPU_SHMEM_SHMEM_FLAG_H_
#define XLA_BACKENDS_GPU_SHMEM_SHMEM_FLAG_H_

#include "google/protobuf/message.h"
#include "xla/tsl/util/command_line_flags.h"

namespace xla::gpu {

// An entry of XLA's list of flags, for releases without the field. It sets the flag of this process.
tsl::Flag NvshmemFlag();

// Whether the flag is set: in `debug_options` (xla::DebugOptions) if they have the field, otherwise in this process.
bool IsNvshmemRequested(const google::protobuf::Message& debug_options);

}  // namespace xla::gpu

#endif  // XLA_BACKENDS_GPU_SHMEM_SHMEM_FLAG_H_
