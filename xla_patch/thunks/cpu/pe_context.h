// What the operations of one local PE share.
#ifndef XLA_SHMEM_THUNKS_CPU_PE_CONTEXT_H_
#define XLA_SHMEM_THUNKS_CPU_PE_CONTEXT_H_

#include <cstddef>

#include "xla_patch/shm/cross_memory_reader.h"
#include "xla_patch/shm/heap.h"

namespace xla_shmem {

class GrantBoard;
class Mailboxes;
class SlotPool;

struct PeContext {
  const shm::Heap* heap;  // of the job
  int pe;
  Mailboxes* mail;
  GrantBoard* board;
  SlotPool* slots;
  SlotPool* reserve;  // for the smallest geometry only: keeps every operation moving when `slots` is used up
  const shm::CrossMemoryReader* direct;
  bool is_oversubscribed;  // PEs that wait for one another may have to share a core
  size_t llc_share;        // bytes that an operation may write and find in a cache afterwards
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_PE_CONTEXT_H_
