// Staging memory of one PE: blocks of its arena, pooled by size (powers of two).
//
// Blocks are handed out where a message is received and taken back when it has been consumed, so the arena holds what
// is in flight and not what a program could ever send. Offsets are local knowledge: the receiver publishes them
// (grant_board.h). A buddy allocator (Knuth, TAOCP 1, 2.5) that joins buddies only when a request would fail otherwise:
// the blocks that a program takes again and again stay as they are.
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
  // Gives a block back; `bytes` as in Take.
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
  bool returned_since_join_ = false;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_SLOT_POOL_H_
