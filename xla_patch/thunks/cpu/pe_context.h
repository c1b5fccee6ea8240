// The resources that all operations of one local PE share.
#ifndef XLA_SHMEM_THUNKS_CPU_PE_CONTEXT_H_
#define XLA_SHMEM_THUNKS_CPU_PE_CONTEXT_H_

#include <cstddef>

#include "xla_patch/shm/cross_memory_reader.h"
#include "xla_patch/shm/heap.h"

namespace xla_shmem {

class GrantBoard;
class InProcessMeetings;
class Mailboxes;
class PeerOperations;
class ProtocolChoice;
class SlotPool;
class SlotStores;

struct PeContext {
  const shm::Heap* heap;  // of the job
  int pe;
  Mailboxes* mailboxes;
  GrantBoard* grant_board;
  const PeerOperations* peer_operations;
  SlotPool* slots;
  SlotPool* reserve;  // for the smallest geometry only, so that every operation can proceed when `slots` is exhausted
  const shm::CrossMemoryReader* cross_memory_reader;
  ProtocolChoice* protocol_choice;
  SlotStores* slot_stores;      // by receiver
  bool is_oversubscribed;       // PEs that wait for each other may have to share a core
  InProcessMeetings* meetings;  // null: collectives within this process use messages too
  size_t llc_share;             // bytes that an operation may write and that then stay in the cache
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_PE_CONTEXT_H_
