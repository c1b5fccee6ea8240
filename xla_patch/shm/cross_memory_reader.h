// Reads other processes' private memory, so that a large message is copied once and not twice.
//
// process_vm_readv(2) where the kernel permits it and where it is worth it. The first is found out once for every
// process, by reading a word of its memory whose value is known; the second once, by timing single copies, out of small
// pages and out of huge ones, against the two that they would save (copy_costs.h). Between PEs of one process it is a
// memcpy.
#ifndef XLA_SHMEM_SHM_CROSS_MEMORY_READER_H_
#define XLA_SHMEM_SHM_CROSS_MEMORY_READER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "xla_patch/shm/heap.h"

namespace xla_shmem::shm {

enum class SingleCopy {
  kAuto,       // where permitted and faster
  kHugePages,  // where permitted, out of huge pages
  kAlways,     // where permitted
  kOff,        // nowhere
};

// Which memory of another PE is read, and not asked to be staged.
enum class DirectReads : uint32_t { kNone, kHugePages, kAll };

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

  // Which messages from `pe` are to be read out of its memory.
  DirectReads Reads(int pe) const { return reads_[pe]; }
  // Copies the pieces from the memory of `pe`'s process.
  Outcome Read(int pe, const DirectPiece* pieces, size_t count) const;

 private:
  const Heap* const heap_;
  std::vector<DirectReads> reads_;  // by PE
};

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_CROSS_MEMORY_READER_H_
