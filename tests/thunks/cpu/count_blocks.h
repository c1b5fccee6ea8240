#ifndef XLA_SHMEM_TESTS_THUNKS_CPU_COUNT_BLOCKS_H_
#define XLA_SHMEM_TESTS_THUNKS_CPU_COUNT_BLOCKS_H_

#include <cstddef>
#include <vector>

#include "xla_patch/thunks/cpu/slot_pool.h"

namespace xla_shmem::testing {

// How many blocks of this size are free.
inline size_t CountBlocks(SlotPool* pool, size_t bytes) {
  std::vector<char*> blocks;
  while (char* block = pool->Take(bytes)) blocks.push_back(block);
  for (char* block : blocks) pool->Return(block, bytes);
  return blocks.size();
}

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_THUNKS_CPU_COUNT_BLOCKS_H_
