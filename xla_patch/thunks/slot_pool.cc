#include "xla_patch/thunks/slot_pool.h"

namespace xla_shmem {
namespace {

constexpr size_t kSmallestBlock = 256;

}  // namespace

int SlotPool::ClassOf(size_t bytes) {
  int size_class = 0;
  while ((kSmallestBlock << size_class) < bytes) ++size_class;
  return size_class;
}

char* SlotPool::Take(size_t bytes) {
  if (bytes > bytes_) return nullptr;
  const int size_class = ClassOf(bytes);
  std::lock_guard<std::mutex> lock(mutex_);
  if (!free_[size_class].empty()) {
    char* block = free_[size_class].back();
    free_[size_class].pop_back();
    return block;
  }
  const size_t block_bytes = kSmallestBlock << size_class;
  if (block_bytes <= bytes_ - used_) {
    char* block = arena_ + used_;
    used_ += block_bytes;
    return block;
  }
  // The arena is carved up: halve the smallest larger block that is free.
  for (int larger = size_class + 1; larger < kClasses; ++larger) {
    if (free_[larger].empty()) continue;
    char* block = free_[larger].back();
    free_[larger].pop_back();
    for (int half = larger - 1; half >= size_class; --half) free_[half].push_back(block + (kSmallestBlock << half));
    return block;
  }
  return nullptr;
}

void SlotPool::Return(char* block, size_t bytes) {
  const int size_class = ClassOf(bytes);
  std::lock_guard<std::mutex> lock(mutex_);
  free_[size_class].push_back(block);
}

}  // namespace xla_shmem
