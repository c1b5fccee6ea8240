#ifndef XLA_SHMEM_SHM_LLC_SHARE_H_
#define XLA_SHMEM_SHM_LLC_SHARE_H_

#include <cstddef>
#include <string>

namespace xla_shmem::shm {

// Bytes of last-level cache for each of `pes` PEs of this host, if they are spread evenly over its processors; SIZE_MAX
// if the system does not tell. `caches`: the folder in which Linux describes the caches of one processor.
size_t LlcShare(int pes, const std::string& caches = "/sys/devices/system/cpu/cpu0/cache");

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_LLC_SHARE_H_
