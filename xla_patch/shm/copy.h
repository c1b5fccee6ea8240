#ifndef XLA_SHMEM_SHM_COPY_H_
#define XLA_SHMEM_SHM_COPY_H_

#include <cstddef>
#include <cstdint>

namespace xla_shmem::shm {

// Whether `rep movsb` from one to the other takes 15 times as long as it should on AMD's Zen 3: where the destination
// lies 1 to 31 bytes behind the source, modulo 4096 (measured; docs/performance.md). The kernel copies between
// processes with it, and so does glibc before 2.39, of 2 to 512 KiB.
inline bool Is4kAliased(const void* to, const void* from) {
  return (reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from) - 1) % 4096 < 31;
}

// memcpy, at full speed also where they are askew.
void Copy(void* to, const void* from, size_t bytes);

// The same past the caches: what is written is not read from memory first. Faster for what would not stay in a cache,
// slower for what would (docs/performance.md). glibc's memcpy does so too, above a size that it reckons from the
// caches of the whole processor, 402 MB where 32 are in reach.
void CopyPastCaches(void* to, const void* from, size_t bytes);

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_COPY_H_
