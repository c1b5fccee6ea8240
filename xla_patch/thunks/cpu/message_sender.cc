#include "xla_patch/thunks/cpu/message_sender.h"

#include <sched.h>

#include <algorithm>

#include "xla_patch/shm/copy.h"
#include "xla_patch/shm/steady_clock.h"
#include "xla_patch/thunks/cpu/slot_stores.h"
#include "xla_patch/types/invariant.h"

namespace xla_shmem {

bool MessageSender::Advance(const PeContext& context, size_t ready) {
  XLA_SHMEM_INVARIANT(ready, <=, total());
  XLA_SHMEM_INVARIANT(taken_, <=, total());
  if (done()) return false;
  switch (protocol_) {
    case Protocol::kUndecided:
      return ChooseProtocol(context, ready);
    case Protocol::kCrossMemoryRead:
      return AdvanceCrossMemoryRead(context, ready);
    case Protocol::kSlots:
      return AdvanceThroughSlots(context, ready);
  }
  return false;
}

bool MessageSender::ChooseProtocol(const PeContext& context, size_t ready) {
  if (total() <= context.mailboxes->eager_bytes()) {
    if (ready < total()) return false;  // it is sent as a whole
    if (SendEager(context)) return true;
  } else {
    if (!may_be_read_.has_value()) may_be_read_ = MayBeRead(context);
    if (*may_be_read_ && OfferCrossMemoryRead(context, ready)) return true;
  }
  if (!channel_.Open(context, receiver_, key_)) return false;
  protocol_ = Protocol::kSlots;
  if (began_ != 0) channel_.SetBegan(began_);
  AdvanceThroughSlots(context, ready);
  return true;
}

bool MessageSender::MayBeRead(const PeContext& context) const {
  return !overwritten_ && total() >= kMinCrossMemoryReadBytes && context.mailboxes->IsReadBy(receiver_);
}

bool MessageSender::HasChoice(const PeContext& context) const {
  // Between PEs of one process a read is a memcpy, and always faster.
  return MayBeRead(context) && !context.heap->IsLocal(receiver_);
}

bool MessageSender::SendEager(const PeContext& context) {
  const Mailbox mailbox = context.mailboxes->Claim(receiver_, key_);
  if (mailbox.entry == nullptr) return false;
  memory_.CopyTo(mailbox.data, 0, total());
  context.mailboxes->Post(receiver_, mailbox, key_, total(), total(), MailboxProtocol::kEager);
  taken_ = total();
  return true;
}

bool MessageSender::OfferCrossMemoryRead(const PeContext& context, size_t ready) {
  if (memory_.count() * sizeof(char*) > context.mailboxes->eager_bytes()) return false;
  mailbox_ = context.mailboxes->Claim(receiver_, key_);
  if (mailbox_.entry == nullptr) return false;
  auto** addresses = reinterpret_cast<char**>(mailbox_.data);
  for (size_t i = 0; i < memory_.count(); ++i) addresses[i] = memory_.memory(i);
  context.mailboxes->Post(receiver_, mailbox_, key_, total(), ready, MailboxProtocol::kCrossMemoryRead, began_);
  protocol_ = Protocol::kCrossMemoryRead;
  return true;
}

bool MessageSender::AdvanceCrossMemoryRead(const PeContext& context, size_t ready) {
  MailboxEntry& entry = *mailbox_.entry;
  const uint64_t taken = entry.taken.load(std::memory_order_acquire);
  if (taken == kRefused || taken == total()) {
    context.mailboxes->Free(mailbox_);
    protocol_ = Protocol::kUndecided;
    if (taken == kRefused) {
      may_be_read_ = false;
    } else {
      taken_ = total();
    }
    return true;
  }
  // The receiver counts up, and reads no more than is ready.
  XLA_SHMEM_INVARIANT(taken_, <=, taken);
  XLA_SHMEM_INVARIANT(taken, <=, entry.ready.load(std::memory_order_relaxed));
  bool made_progress = taken != taken_;
  taken_ = taken;
  if (ready > entry.ready.load(std::memory_order_relaxed)) {
    entry.ready.store(ready, std::memory_order_release);
    Ring(context.heap->BellOf(receiver_));
    made_progress = true;
  }
  return made_progress;
}

bool MessageSender::AdvanceThroughSlots(const PeContext& context, size_t ready) {
  bool made_progress = false;
  // After a refusal the first chunk may begin with bytes that the receiver has read and that have been overwritten
  // since; it skips them.
  for (size_t begin = channel_.sent() * channel_.slot_bytes(); begin < total(); begin += channel_.slot_bytes()) {
    const size_t end = std::min(begin + channel_.slot_bytes(), total());
    char* const slot = end <= ready ? channel_.FreeSlot() : nullptr;
    if (slot == nullptr) break;
    FillSlot(context, slot, begin, end);
    channel_.Signal(context);
    taken_ = std::max(taken_, end);
    made_progress = true;
  }
  return made_progress;
}

void MessageSender::FillSlot(const PeContext& context, char* slot, size_t begin, size_t end) const {
  constexpr size_t kWorthAClock = 16 << 10;
  if (end - begin < kWorthAClock) return memory_.CopyTo(slot, begin, end);
  SlotStores& stores = context.slot_stores[receiver_];
  const SlotStores::Choice choice = stores.Next();
  const int64_t before = choice.is_measured ? shm::SteadyNanoseconds() : 0;
  const bool streams = choice.kind == SlotStores::Kind::kStreaming;
  memory_.CopyTo(slot, begin, end, streams ? shm::CopyStreaming : shm::Copy);
  if (choice.is_measured) stores.Record(choice.kind, end - begin, shm::SteadyNanoseconds() - before);
}

bool MessageSender::WaitsForReceiver(const PeContext& context) const {
  if (done()) return false;
  switch (protocol_) {
    case Protocol::kUndecided: {
      if (total() <= context.mailboxes->eager_bytes() && context.mailboxes->HasFreeMailbox(receiver_, key_)) {
        return false;
      }
      SendChannel probe;
      return !probe.Open(context, receiver_, key_);
    }
    case Protocol::kCrossMemoryRead: {
      const uint64_t taken = mailbox_.entry->taken.load(std::memory_order_acquire);
      return taken != kRefused && taken < mailbox_.entry->ready.load(std::memory_order_relaxed);
    }
    case Protocol::kSlots:
      return channel_.FreeSlot() == nullptr;
  }
  return false;
}

bool MessageSender::ReceiverArrived() const {
  if (protocol_ != Protocol::kCrossMemoryRead) return protocol_ == Protocol::kSlots;
  return mailbox_.entry->taken.load(std::memory_order_acquire) != 0 ||
         mailbox_.entry->reading.load(std::memory_order_acquire) != 0;
}

void MessageSender::Revoke(const PeContext& context) {
  if (protocol_ != Protocol::kCrossMemoryRead || !context.heap->IsLocal(receiver_)) return;
  // Either the reader sees the new `state`, or this thread sees `reading` (MessageReceiver::ReadCrossMemory). The
  // mailbox is free only when the reader is done: it still reads the addresses in it.
  mailbox_.entry->state.store(kRevoked, std::memory_order_seq_cst);
  while (mailbox_.entry->reading.load(std::memory_order_seq_cst) != 0) sched_yield();
  context.mailboxes->Free(mailbox_);
}

}  // namespace xla_shmem
