// What a process tells the others of the job before NVSHMEM starts, and the check of all announcements.
#ifndef XLA_BACKENDS_GPU_SHMEM_JOB_ANNOUNCEMENT_H_
#define XLA_BACKENDS_GPU_SHMEM_JOB_ANNOUNCEMENT_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "xla_patch/nvshmem/gpu/world_members.h"
#include "xla_patch/options/environment.h"
#include "xla_patch/types/status.h"

namespace xla::gpu {

struct Announcement {
  xla_shmem::gpu::WorldMember member;  // its process is the one that announced it
  std::string agreement;               // what all processes must have alike
};

std::string ToText(const Announcement& announcement);
// `process`: the process that wrote the text.
xla_shmem::Result<Announcement> AnnouncementOf(int process, const std::string& text);

// Bytes of the arena of each process.
size_t ArenaBytes(const xla_shmem::EnvironmentOptions& options, int num_processes);

// NVSHMEM's variables for a job on so many hosts.
std::map<std::string, std::string> NvshmemSettings(const xla_shmem::EnvironmentOptions& options, int num_processes,
                                                   int hosts);

// Error if the processes do not agree, or cannot form one world. `options`: those of process 0. `own_heap_steps`: as
// xla_shmem::gpu::HeapBytes takes it.
xla_shmem::Status CheckAnnouncements(const std::vector<std::string>& texts,
                                     const xla_shmem::EnvironmentOptions& options, bool own_heap_steps);

}  // namespace xla::gpu

#endif  // XLA_BACKENDS_GPU_SHMEM_JOB_ANNOUNCEMENT_H_
