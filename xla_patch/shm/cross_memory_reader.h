// Reads the private memory of other processes, so that a large message is copied once and not twice.
//
// Uses process_vm_readv(2) if the kernel permits it and if it is faster. The reader tests the permission once for every
// process: it reads the job key out of that process's memory. It measures the speed once: a cross-memory read against
// the two copies through a slot that it replaces (copy_costs.h). Between PEs of one process a read is a memcpy.
#ifndef XLA_SHMEM_SHM_CROSS_MEMORY_READER_H_
#define XLA_SHMEM_SHM_CROSS_MEMORY_READER_H_

#include <cstddef>
#include <vector>

#include "xla_patch/shm/heap.h"

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

  // Whether this process reads large messages out of the memory of `pe`.
  bool Reads(int pe) const { return reads_[pe]; }
  // Copies the pieces from the memory of `pe`'s process.
  Outcome Read(int pe, const RemotePiece* pieces, size_t count) const;

 private:
  const Heap* const heap_;
  std::vector<bool> reads_;  // by PE
};

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_CROSS_MEMORY_READER_H_
