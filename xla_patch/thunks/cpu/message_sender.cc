#include "xla_patch/thunks/cpu/message_sender.h"

#include <sched.h>

#include <algorithm>

namespace xla_shmem {

bool MessageSender::Advance(const PeContext& context, size_t ready) {
  if (done()) return false;
  switch (protocol_) {
    case Protocol::kUndecided:
      return Choose(context, ready);
    case Protocol::kCrossMemoryRead:
      return AdvanceDirect(context, ready);
    case Protocol::kSlots:
      return AdvanceStaged(context, ready);
  }
  return false;
}

bool MessageSender::Choose(const PeContext& context, size_t ready) {
  if (total() <= context.mail->eager_bytes()) {
    if (ready < total()) return false;  // it goes as a whole
    if (SendEager(context)) return true;
  } else {
    if (!may_be_read_.has_value()) {
      may_be_read_ = !overwritten_ && total() >= kLeastDirectBytes && context.mail->ReadsDirectly(receiver_);
    }
    if (*may_be_read_ && OfferDirect(context, ready)) return true;
  }
  if (!channel_.Open(context, receiver_, key_)) return false;
  protocol_ = Protocol::kSlots;
  AdvanceStaged(context, ready);
  return true;
}

bool MessageSender::SendEager(const PeContext& context) {
  const Mail mail = context.mail->Claim(receiver_, key_);
  if (mail.entry == nullptr) return false;
  memory_.CopyTo(mail.data, 0, total());
  context.mail->Post(receiver_, mail, key_, total(), total(), MailKind::kEager);
  taken_ = total();
  return true;
}

bool MessageSender::OfferDirect(const PeContext& context, size_t ready) {
  if (memory_.count() * sizeof(char*) > context.mail->eager_bytes()) return false;
  mail_ = context.mail->Claim(receiver_, key_);
  if (mail_.entry == nullptr) return false;
  auto** addresses = reinterpret_cast<char**>(mail_.data);
  for (size_t i = 0; i < memory_.count(); ++i) addresses[i] = memory_.memory(i);
  context.mail->Post(receiver_, mail_, key_, total(), ready, MailKind::kCrossMemoryRead);
  protocol_ = Protocol::kCrossMemoryRead;
  return true;
}

bool MessageSender::AdvanceDirect(const PeContext& context, size_t ready) {
  MailEntry& entry = *mail_.entry;
  const uint64_t taken = entry.taken.load(std::memory_order_acquire);
  if (taken == kRefused || taken == total()) {
    context.mail->Free(mail_);
    protocol_ = Protocol::kUndecided;
    if (taken == kRefused) {
      may_be_read_ = false;
    } else {
      taken_ = total();
    }
    return true;
  }
  bool moved = taken != taken_;
  taken_ = taken;
  if (ready > entry.ready.load(std::memory_order_relaxed)) {
    entry.ready.store(ready, std::memory_order_release);
    Ring(context.heap->BellOf(receiver_));
    moved = true;
  }
  return moved;
}

bool MessageSender::AdvanceStaged(const PeContext& context, size_t ready) {
  bool moved = false;
  // From the start, also after a refusal: the receiver skips what it has read already.
  for (size_t begin = channel_.sent() * channel_.slot_bytes(); begin < total(); begin += channel_.slot_bytes()) {
    const size_t end = std::min(begin + channel_.slot_bytes(), total());
    char* const slot = end <= ready ? channel_.FreeSlot() : nullptr;
    if (slot == nullptr) break;
    memory_.CopyTo(slot, begin, end);
    channel_.Signal(context);
    taken_ = std::max(taken_, end);
    moved = true;
  }
  return moved;
}

bool MessageSender::Blocked(const PeContext& context) const {
  if (done()) return false;
  switch (protocol_) {
    case Protocol::kUndecided: {
      if (total() <= context.mail->eager_bytes() && context.mail->HasRoom(receiver_, key_)) return false;
      SendChannel probe;
      return !probe.Open(context, receiver_, key_);
    }
    case Protocol::kCrossMemoryRead: {
      const uint64_t taken = mail_.entry->taken.load(std::memory_order_acquire);
      return taken != kRefused && taken < mail_.entry->ready.load(std::memory_order_relaxed);
    }
    case Protocol::kSlots:
      return channel_.FreeSlot() == nullptr;
  }
  return false;
}

bool MessageSender::Answered() const {
  if (protocol_ != Protocol::kCrossMemoryRead) return protocol_ == Protocol::kSlots;
  return mail_.entry->taken.load(std::memory_order_acquire) != 0 ||
         mail_.entry->reading.load(std::memory_order_acquire) != 0;
}

void MessageSender::Revoke(const PeContext& context) {
  if (protocol_ != Protocol::kCrossMemoryRead || !context.heap->IsLocal(receiver_)) return;
  // Either the reader sees that the entry is no longer its message's, or we see that it reads
  // (MessageReceiver::ReadDirect).
  mail_.entry->state.store(0, std::memory_order_seq_cst);
  while (mail_.entry->reading.load(std::memory_order_seq_cst) != 0) sched_yield();
}

}  // namespace xla_shmem
