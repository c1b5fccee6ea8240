// What a process tells the others of the job before NVSHMEM starts, and the check of all of that.
#ifndef XLA_BACKENDS_GPU_SHMEM_JOB_ANNOUNCEMENT_H_
#define XLA_BACKENDS_GPU_SHMEM_JOB_ANNOUNCEMENT_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "xla_patch/nvshmem/gpu/bootstrap.h"
#include "xla_patch/options/environment.h"
#include "xla_patch/types/status.h"

namespace xla::gpu {

// The facts of a process as one line, without its number, and those of all processes from their lines.
std::string ToText(const xla_shmem::gpu::WorldMember& member);
xla_shmem::Result<std::vector<xla_shmem::gpu::WorldMember>> MembersOf(const std::vector<std::string>& texts);

// Bytes of the arena of each process.
size_t ArenaBytes(const xla_shmem::EnvironmentOptions& options, int num_processes);

// NVSHMEM's variables for these processes.
std::map<std::string, std::string> NvshmemSettings(const xla_shmem::EnvironmentOptions& options,
                                                   const std::vector<xla_shmem::gpu::WorldMember>& members);

// Error if the processes cannot form one world. `own_heap_steps`: as xla_shmem::gpu::HeapBytes takes it.
xla_shmem::Status CheckMembers(const std::vector<std::string>& texts, const xla_shmem::EnvironmentOptions& options,
                               bool own_heap_steps);

}  // namespace xla::gpu

#endif  // XLA_BACKENDS_GPU_SHMEM_JOB_ANNOUNCEMENT_H_
