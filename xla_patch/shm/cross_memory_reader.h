// Reads the private memory of other processes, so that a large message is copied once and not twice.
//
// Memory that the other process shares (shared_buffers.h) is read by loads. For all else it uses process_vm_readv(2) if
// the kernel permits it. The reader tests that once for every process: it reads the job key out of that process's
// memory. Whether a read is also faster is found out while the job runs (thunks/cpu/protocol_choice.h). Between PEs of
// one process a read is a memcpy.
#ifndef XLA_SHMEM_SHM_CROSS_MEMORY_READER_H_
#define XLA_SHMEM_SHM_CROSS_MEMORY_READER_H_

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "xla_patch/shm/heap.h"
#include "xla_patch/shm/shared_buffers.h"

namespace xla_shmem::shm {

enum class SingleCopy {
  kAuto,    // where permitted and faster
  kAlways,  // where permitted
  kOff,     // nowhere
};

struct RemotePiece {
  const void* remote;  // in the other process
  void* local;
  size_t bytes;
};

class CrossMemoryReader {
 public:
  enum class Outcome {
    kDone,
    kRefused,  // the kernel does not permit it: the bytes must come through slots
    kGone,     // the process has exited or failed: the bytes will never come
  };

  CrossMemoryReader(const Heap* heap, SingleCopy single_copy);

  // Whether the processes of all these PEs have files with their large buffers. All of them get the same answer.
  bool HaveSharedBuffers(const std::vector<int>& pes) const;
  // Whether this process may read large messages out of the memory of `pe`.
  bool Reads(int pe) const { return reads_[pe]; }
  // Copies the pieces from the memory of `pe`'s process. `past_cache`: they are part of more than the cache holds.
  Outcome Read(int pe, const RemotePiece* pieces, size_t count, bool past_cache = false) const;
  // Where bytes of `pe`'s process lie in this one; null if only Read reaches them.
  const char* Find(int pe, const void* remote, size_t bytes) const;
  // Whether all that was read of what Find returned was right: a process that fails frees its buffers.
  bool IsIntact(int pe) const;

 private:
  const Heap* const heap_;
  std::vector<bool> reads_;                               // by PE
  std::vector<bool> has_shared_buffers_;                  // by PE
  std::map<int, std::unique_ptr<SharedBuffers>> shared_;  // by process
};

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_CROSS_MEMORY_READER_H_
