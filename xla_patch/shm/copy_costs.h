// The cost of a message between two processes: one copy by the kernel, or two copies through a slot.
//
// The two ends of a message run on different cores, and that makes most of the cost: a byte that one core has just
// written crosses to the other core once for a single copy, and twice for a slot, whose cache lines go back and forth.
// Copies by one thread, out of its own cache, would make slots look half as expensive as they are.
#ifndef XLA_SHMEM_SHM_COPY_COSTS_H_
#define XLA_SHMEM_SHM_COPY_COSTS_H_

#include <chrono>
#include <cstddef>
#include <optional>

namespace xla_shmem::shm {

// Processor time, the least of 20 rounds.
struct CopyCosts {
  std::chrono::nanoseconds cross_memory_read;  // process_vm_readv(2)
  std::chrono::nanoseconds through_slots;      // into a slot by the sender, out of it by the receiver
};

// Measures both for a message of `bytes`, between this thread and a second one, which runs on another core if the
// system allows it. Takes 5 ms for 512 KiB. Empty if the system gives no memory, no thread or no permission.
std::optional<CopyCosts> MeasureCopies(size_t bytes);

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_COPY_COSTS_H_
