// The start of a world: whether its processes can start, the settings of NVSHMEM, and how a process joins a world of
// NVSHMEM by unique id, with the host library alone.
//
// NVSHMEM's start is collective and cannot be undone. A condition that fails in one process would stop that process
// alone and leave the others waiting, so all of them check it for all members first.
//
// NVSHMEM reads its environment once: PE 0 in nvshmemx_get_uniqueid, the other PEs in their init. PEs with different
// settings lay out their heaps differently, and no error tells. So every process sets the same values before the unique
// id is made. A value that the user has set stays; one that differs between processes is refused before any start.
#ifndef XLA_SHMEM_NVSHMEM_GPU_BOOTSTRAP_H_
#define XLA_SHMEM_NVSHMEM_GPU_BOOTSTRAP_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "xla_patch/nvshmem/gpu/cuda_driver.h"
#include "xla_patch/nvshmem/loader.h"
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

// Variables by name. `symmetric_bytes`: what this runtime allocates on each PE. `hosts`: of the world. `multimem`:
// whether NVSHMEM is to make multicast memory. Equal arguments give equal settings.
std::map<std::string, std::string> WorldSettings(size_t symmetric_bytes, int hosts, bool multimem);

// Bytes that NVSHMEM's heap takes on each PE with these settings. `own_steps`: the user has set
// NVSHMEM_CUMEM_GRANULARITY, so the steps in which the heap grows are unknown and not counted.
size_t HeapBytes(const std::map<std::string, std::string>& settings, bool own_steps);

// Those variables of a user that must be equal in all processes, as "NAME=value NAME=value"; "" for none.
std::string ChosenByUser(const std::map<std::string, std::string>& variables);

// Bytes of a unique id (nvshmemx_uniqueid_t of NVSHMEM 3).
inline constexpr size_t kUniqueIdBytes = 128;

// Makes the id that one process sends to all others. Opens a listening socket.
Result<std::string> MakeUniqueId(const NvshmemLibrary& library);

// Collective over all PEs. The device's context must be current; it keeps its flags.
Status JoinWorld(const NvshmemLibrary& library, const CudaDriver& cuda, int pe, int n_pes,
                 const std::string& unique_id);

// Bytes between the start of NVSHMEM's heap and `object` of PE `pe`, which is this one; 0 if nvshmem_ptr does not show
// where the heap starts. PEs reach each other's objects only if these offsets are equal.
size_t OffsetInHeap(const NvshmemApi& api, const void* object, int pe);

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_BOOTSTRAP_H_
