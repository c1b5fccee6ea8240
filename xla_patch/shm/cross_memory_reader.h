// Reads other processes' private memory, so that a large message is copied once and not twice.
//
// process_vm_readv(2) where the kernel permits it and where it is worth it. The first is found out once for every
// process, by reading a word of its memory whose value is known; the second once, by timing single copies
// against the two that they would save (copy_costs.h). Between PEs of one process it is a
// memcpy.
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

struct DirectPiece {
  const void* remote;  // in the other process
  void* local;
  size_t bytes;
};

class CrossMemoryReader {
 public:
  enum class Outcome {
    kDone,
    kRefused,  // the kernel does not let us: the bytes must come another way
    kGone,     // the process has exited or given up: they will never come
  };

  CrossMemoryReader(const Heap* heap, SingleCopy single_copy);

  // Whether large messages from `pe` are to be read out of its memory.
  bool Reads(int pe) const { return reads_[pe]; }
  // Copies the pieces from the memory of `pe`'s process.
  Outcome Read(int pe, const DirectPiece* pieces, size_t count) const;

 private:
  const Heap* const heap_;
  std::vector<bool> reads_;  // by PE
};

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_CROSS_MEMORY_READER_H_
