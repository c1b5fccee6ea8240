// What the processes of an NVSHMEM world tell one another before it starts, and whether it can start with them.
//
// NVSHMEM's start is collective and cannot be undone. A condition that fails in one process would stop that process
// alone and leave the others waiting, so all of them check it for all members first.
#ifndef XLA_SHMEM_NVSHMEM_GPU_WORLD_MEMBERS_H_
#define XLA_SHMEM_NVSHMEM_GPU_WORLD_MEMBERS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "xla_patch/types/status.h"

namespace xla_shmem::gpu {

// A PE of a world: one GPU of a process.
struct WorldMember {
  int process = 0;
  std::string host;       // equal in processes that are on one host for NVSHMEM
  std::string bus_id;     // PCI address of its GPU
  int imex_channels = 0;  // how many it sees (CountImexChannels)
  size_t free_bytes = 0;  // memory of its GPU
};

// Equal in processes that are on one host for NVSHMEM: same kernel and same host name. NVSHMEM compares host names, so
// two pods of one machine are two hosts.
std::string HostIdentity();

// One file for each IMEX channel, with which GPUs map memory of other hosts.
inline constexpr char kImexChannels[] = "/dev/nvidia-caps-imex-channels";

// How many channels this process sees; 0 if the folder does not exist.
int CountImexChannels(const std::string& folder = kImexChannels);

// How many hosts the members are on.
int CountHosts(const std::vector<WorldMember>& members);

// What makes the symmetric memory of a world.
enum class HeapProvider { kNvshmem, kDriver };

// Error if no process of the world can start: uneven hosts with NVSHMEM, several hosts without IMEX, or too little
// memory. `heap_bytes`: what the heap takes on each PE (HeapBytes). A pure function: every process computes the same.
Status CheckWorld(const std::vector<WorldMember>& members, size_t heap_bytes,
                  HeapProvider provider = HeapProvider::kNvshmem);

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_WORLD_MEMBERS_H_
