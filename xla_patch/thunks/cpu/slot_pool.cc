#include "xla_patch/thunks/cpu/slot_pool.h"

#include <algorithm>
#include <utility>

#include "xla_patch/types/invariant.h"

namespace xla_shmem {
namespace {

constexpr size_t kSmallestBlock = 256;

size_t BlockBytes(int size_class) { return kSmallestBlock << size_class; }

}  // namespace

SlotPool::SlotPool(char* arena, size_t bytes) : arena_(arena), bytes_(bytes) {
  // The binary digits of the size, largest first: every block then starts at a multiple of its size.
  size_t offset = 0;
  for (int size_class = kClasses - 1; size_class >= 0; --size_class) {
    if ((bytes & BlockBytes(size_class)) == 0) continue;
    free_[size_class].push_back(offset);
    offset += BlockBytes(size_class);
  }
}

int SlotPool::ClassOf(size_t bytes) {
  int size_class = 0;
  while (BlockBytes(size_class) < bytes) ++size_class;
  return size_class;
}

char* SlotPool::Take(size_t bytes) {
  if (bytes > bytes_) return nullptr;
  const int size_class = ClassOf(bytes);
  std::lock_guard<std::mutex> lock(mutex_);
  size_t offset;
  if (!TakeFree(size_class, &offset)) {
    if (!std::exchange(returned_since_join_, false)) return nullptr;
    JoinBuddies();
    if (!TakeFree(size_class, &offset)) return nullptr;
  }
  in_use_ += BlockBytes(size_class);
  XLA_SHMEM_INVARIANT(in_use_, <=, bytes_);
  XLA_SHMEM_INVARIANT(offset + BlockBytes(size_class), <=, bytes_);
  return arena_ + offset;
}

void SlotPool::Return(char* block, size_t bytes) {
  const int size_class = ClassOf(bytes);
  const auto offset = static_cast<size_t>(block - arena_);
  XLA_SHMEM_INVARIANT(offset, <, bytes_);  // of this arena, and of this size
  XLA_SHMEM_INVARIANT(offset % BlockBytes(size_class), ==, size_t{0});
  std::lock_guard<std::mutex> lock(mutex_);
  XLA_SHMEM_INVARIANT(BlockBytes(size_class), <=, in_use_);
  in_use_ -= BlockBytes(size_class);
  free_[size_class].push_back(offset);
  returned_since_join_ = true;
}

bool SlotPool::TakeFree(int size_class, size_t* offset) {
  for (int larger = size_class; larger < kClasses; ++larger) {
    if (free_[larger].empty()) continue;
    *offset = free_[larger].back();
    free_[larger].pop_back();
    for (int half = larger - 1; half >= size_class; --half) free_[half].push_back(*offset + BlockBytes(half));
    return true;
  }
  return false;
}

void SlotPool::JoinBuddies() {
  for (int size_class = 0; size_class + 1 < kClasses; ++size_class) {
    std::vector<size_t>& blocks = free_[size_class];
    std::sort(blocks.begin(), blocks.end());
    const size_t bytes = BlockBytes(size_class);
    size_t kept = 0;
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (i + 1 < blocks.size() && blocks[i] % (2 * bytes) == 0 && blocks[i + 1] == blocks[i] + bytes) {
        free_[size_class + 1].push_back(blocks[i++]);
      } else {
        blocks[kept++] = blocks[i];
      }
    }
    blocks.resize(kept);
  }
}

}  // namespace xla_shmem
