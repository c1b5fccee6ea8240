// Copies of memory that stay fast where memcpy does not.
#ifndef XLA_SHMEM_SHM_COPY_H_
#define XLA_SHMEM_SHM_COPY_H_

#include <cstddef>
#include <cstdint>

namespace xla_shmem::shm {

// True if the destination lies 1 to 31 bytes behind the source, modulo 4096. There `rep movsb` takes 15 times as long
// on AMD's Zen 3 (docs/performance.md). The kernel copies between processes with it; glibc before 2.39 copies 2 to 512
// KiB with it.
inline bool Is4kAliased(const void* to, const void* from) {
  return (reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from) - 1) % 4096 < 31;
}

// memcpy, at full speed also for buffers that are 4k-aliased.
void Copy(void* to, const void* from, size_t bytes);

// The same with streaming stores, which do not read the destination from memory first. Faster for copies that are too
// large for the cache, slower for all others (docs/performance.md). glibc's memcpy also uses such stores, but from a
// size that it derives from the caches of the whole processor: 402 MB where one core reaches 32.
void CopyStreaming(void* to, const void* from, size_t bytes);

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_COPY_H_
