// What it costs to move a message between two processes: one copy by the kernel, or two through a slot.
//
// The two ends of a message run on different cores, and that is most of it: a byte that one core has just written has
// to cross to the other, once in a single copy, twice through a slot (the slot's lines go to and fro). Copies by one
// thread alone, out of its own cache, say that slots cost half of what they do.
#ifndef XLA_SHMEM_SHM_COPY_COSTS_H_
#define XLA_SHMEM_SHM_COPY_COSTS_H_

#include <chrono>
#include <cstddef>

namespace xla_shmem::shm {

struct CopyCosts {
  // Processor time, least of 20 turns.
  std::chrono::nanoseconds direct;  // process_vm_readv(2)
  std::chrono::nanoseconds staged;  // into a slot by the one, out of it by the other
};

// Measures both for a message of `bytes`, between this thread and a second one, which runs on another core if the
// system lets it. Takes 5 ms for 512 KiB. False if it cannot be measured: no memory, no thread, or no permission.
bool MeasureCopies(size_t bytes, CopyCosts* costs);

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_COPY_COSTS_H_
