// The blocks of one PE's arena, pooled by size (powers of two).
//
// A receiver takes a block for a message and returns it after the message, so the arena needs space only for the
// messages in flight. Only the receiver knows the offsets; it publishes them in grants (grant_board.h). This is a buddy
// allocator (Knuth, TAOCP 1, 2.5) that joins buddies only if a request would fail otherwise, so that blocks that a
// program takes repeatedly are not split and joined each time.
#ifndef XLA_SHMEM_THUNKS_CPU_SLOT_POOL_H_
#define XLA_SHMEM_THUNKS_CPU_SLOT_POOL_H_

#include <array>
#include <cstddef>
#include <mutex>
#include <vector>

namespace xla_shmem {

class SlotPool {
 public:
  SlotPool(char* arena, size_t bytes);

  // A 64-byte-aligned block of at least `bytes`, or nullptr while the arena is exhausted. Thread-safe.
  char* Take(size_t bytes);
  // Returns a block; `bytes` as in Take.
  void Return(char* block, size_t bytes);

 private:
  static constexpr int kClasses = 48;
  static int ClassOf(size_t bytes);
  bool TakeFree(int size_class, size_t* offset);
  void JoinBuddies();

  std::mutex mutex_;
  char* const arena_;
  const size_t bytes_;
  std::array<std::vector<size_t>, kClasses> free_;  // offsets, each a multiple of its block's size
  size_t in_use_ = 0;                               // bytes of blocks that are taken
  bool returned_since_join_ = false;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_SLOT_POOL_H_
