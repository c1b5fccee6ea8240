#include "xla_patch/thunks/cpu/local_pes.h"

#include <string>

#include "xla_patch/shm/llc_share.h"

namespace xla_shmem {

Result<std::unique_ptr<LocalPes>> LocalPes::Create(const Options& options, shm::Heap* heap) {
  constexpr size_t kMinReserveBytes = 64 << 10;
  const int n_pes = heap->n_pes();
  const size_t eager_bytes = Mailboxes::EagerBytes(heap->bytes(), n_pes);
  const size_t board = heap->Allocate(GrantBoard::Bytes(n_pes));
  const size_t mailbox = heap->Allocate(Mailboxes::Bytes(eager_bytes, n_pes));
  const size_t choices = heap->Allocate(ProtocolChoice::Bytes());
  size_t arena_bytes = options.arena_bytes, reserve_bytes = options.reserve_bytes;
  if (arena_bytes == 0) {
    // Three quarters for slots, one quarter for the smallest slots (docs/protocol.md, "No deadlock").
    const size_t left = heap->bytes() - heap->Used();
    reserve_bytes = left / 4 / shm::kPageBytes * shm::kPageBytes;
    arena_bytes = left / shm::kPageBytes * shm::kPageBytes - reserve_bytes;
    if (reserve_bytes < kMinReserveBytes) {
      reserve_bytes = heap->bytes();  // cannot be allocated, so the heap is too small
    }
  }
  const size_t reserve = heap->Allocate(reserve_bytes);
  const size_t arena = heap->Allocate(arena_bytes);
  if (board == SIZE_MAX || mailbox == SIZE_MAX || choices == SIZE_MAX || reserve == SIZE_MAX || arena == SIZE_MAX) {
    return Status::Error("a symmetric heap of " + std::to_string(heap->bytes()) + " bytes a PE is too small for " +
                         std::to_string(n_pes) + " PEs: raise XLA_SHMEM_HEAP_SIZE (bytes a process)");
  }
  int first = 0;
  while (!heap->Reaches(first)) ++first;
  const bool has_choice = options.single_copy == shm::SingleCopy::kAuto;
  std::unique_ptr<LocalPes> pes(new LocalPes(heap, options, has_choice ? heap->base(first) + choices : nullptr));
  pes->contexts_.resize(n_pes);
  const bool is_oversubscribed = heap->IsOversubscribed();
  const size_t llc_share = options.llc_share != 0 ? options.llc_share : shm::LlcShare(heap->ReachablePes());
  for (int pe : heap->local_pes()) {
    char* base = heap->base(pe);
    pes->boards_.push_back(std::make_unique<GrantBoard>(heap, board, pe));
    pes->mailboxes_.push_back(std::make_unique<Mailboxes>(heap, mailbox, eager_bytes, pe));
    pes->pools_.push_back(std::make_unique<SlotPool>(base + arena, arena_bytes));
    SlotPool* slots = pes->pools_.back().get();
    pes->pools_.push_back(std::make_unique<SlotPool>(base + reserve, reserve_bytes));
    SlotPool* reserve_pool = pes->pools_.back().get();
    Mailboxes* mailboxes = pes->mailboxes_.back().get();
    for (int sender = 0; sender < n_pes; ++sender) {
      // Rows begin as zeros. A store would take memory for each.
      if (pes->cross_memory_reader_.Reads(sender)) mailboxes->AdvertiseDirectReads(sender, true);
    }
    pes->contexts_[pe] = std::make_unique<PeContext>(
        PeContext{heap, pe, mailboxes, pes->boards_.back().get(), &pes->peer_operations_, slots, reserve_pool,
                  &pes->cross_memory_reader_, &pes->protocol_choice_, pes->slot_stores_.get(), is_oversubscribed,
                  options.in_process ? &pes->meetings_ : nullptr, llc_share});
  }
  return pes;
}

}  // namespace xla_shmem
