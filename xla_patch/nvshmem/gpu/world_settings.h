// The settings with which NVSHMEM starts.
//
// NVSHMEM reads its environment once: PE 0 in nvshmemx_get_uniqueid, the other PEs in their init. PEs with different
// settings lay out their heaps differently, and no error tells. So every process sets the same values before the unique
// id is made. A value that the user has set stays; one that differs between processes is refused before any start.
#ifndef XLA_SHMEM_NVSHMEM_GPU_WORLD_SETTINGS_H_
#define XLA_SHMEM_NVSHMEM_GPU_WORLD_SETTINGS_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace xla_shmem::gpu {

// Variables by name. `symmetric_bytes`: what this runtime allocates on each PE. `hosts`: of the world. `multimem`:
// whether NVSHMEM is to make multicast memory. Equal arguments give equal settings.
std::map<std::string, std::string> WorldSettings(size_t symmetric_bytes, int hosts, bool multimem);

// Bytes that NVSHMEM's heap takes on each PE with these settings. `own_steps`: the user has set
// NVSHMEM_CUMEM_GRANULARITY, so the steps in which the heap grows are unknown and not counted.
size_t HeapBytes(const std::map<std::string, std::string>& settings, bool own_steps);

// Names of the variables that must be equal in all processes if a user sets them, sorted: those of WorldSettings, and
// others that decide where NVSHMEM puts its memory or how PEs work together.
std::vector<std::string> VariablesThatMustAgree();

// Those of them that are among the variables that a user has set, as "NAME=value NAME=value"; "" for none.
std::string ChosenByUser(const std::map<std::string, std::string>& variables);

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_WORLD_SETTINGS_H_
