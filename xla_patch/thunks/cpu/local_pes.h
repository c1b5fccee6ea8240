// The PEs of this process with their grant boards, mailboxes and arenas in the symmetric heap of the job.
#ifndef XLA_SHMEM_THUNKS_CPU_LOCAL_PES_H_
#define XLA_SHMEM_THUNKS_CPU_LOCAL_PES_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "xla_patch/shm/cross_memory_reader.h"
#include "xla_patch/shm/heap.h"
#include "xla_patch/thunks/cpu/grant_board.h"
#include "xla_patch/thunks/cpu/in_process_collective.h"
#include "xla_patch/thunks/cpu/mailboxes.h"
#include "xla_patch/thunks/cpu/pe_context.h"
#include "xla_patch/thunks/cpu/peer_operations.h"
#include "xla_patch/thunks/cpu/protocol_choice.h"
#include "xla_patch/thunks/cpu/slot_pool.h"
#include "xla_patch/thunks/cpu/slot_stores.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

class LocalPes {
 public:
  struct Options {
    shm::SingleCopy single_copy;
    // 0: the rest of the heap, three quarters for slots and one quarter for the reserve.
    size_t arena_bytes = 0;
    size_t reserve_bytes = 0;
    size_t llc_share = 0;    // of PeContext; 0: from the system's caches
    bool in_process = true;  // collectives between PEs of this process only need no messages
  };

  // Collective: all processes lay out their heaps in the same way. The heap must outlive the PEs. Fails if it is too
  // small.
  static Result<std::unique_ptr<LocalPes>> Create(const Options& options, shm::Heap* heap);

  // Of a local PE.
  const PeContext* context(int pe) const { return contexts_[pe].get(); }
  // Of all of them.
  PeerOperations& peer_operations() { return peer_operations_; }

 private:
  LocalPes(shm::Heap* heap, const Options& options, void* choices)
      : cross_memory_reader_(heap, options.single_copy),
        protocol_choice_(choices, heap->ProcessOf(heap->local_pes().front())),
        slot_stores_(std::make_unique<SlotStores[]>(heap->n_pes())) {}

  const shm::CrossMemoryReader cross_memory_reader_;
  ProtocolChoice protocol_choice_;
  const std::unique_ptr<SlotStores[]> slot_stores_;  // by receiver
  PeerOperations peer_operations_;
  InProcessMeetings meetings_;
  std::vector<std::unique_ptr<GrantBoard>> boards_;
  std::vector<std::unique_ptr<Mailboxes>> mailboxes_;
  std::vector<std::unique_ptr<SlotPool>> pools_;
  std::vector<std::unique_ptr<PeContext>> contexts_;  // by PE; null for those of other processes
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_LOCAL_PES_H_
