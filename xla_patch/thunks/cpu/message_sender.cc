#include "xla_patch/thunks/cpu/message_sender.h"

#include <sched.h>

#include <algorithm>

namespace xla_shmem {

bool Outgoing::Advance(const PeContext& context, size_t ready) {
  if (done()) return false;
  switch (way_) {
    case Way::kUndecided:
      return Choose(context, ready);
    case Way::kDirect:
      return AdvanceDirect(context, ready);
    case Way::kStaged:
      return AdvanceStaged(context, ready);
  }
  return false;
}

bool Outgoing::Choose(const PeContext& context, size_t ready) {
  if (total() <= context.mail->eager_bytes()) {
    if (ready < total()) return false;  // it goes as a whole
    if (SendEager(context)) return true;
  } else {
    if (!may_be_read_.has_value()) may_be_read_ = IsRead(context);
    if (*may_be_read_ && OfferDirect(context, ready)) return true;
  }
  if (!channel_.Open(context, receiver_, key_)) return false;
  way_ = Way::kStaged;
  AdvanceStaged(context, ready);
  return true;
}

bool Outgoing::SendEager(const PeContext& context) {
  const Mail mail = context.mail->Claim(receiver_, key_);
  if (mail.entry == nullptr) return false;
  memory_.CopyTo(mail.data, 0, total());
  context.mail->Post(receiver_, mail, key_, total(), total(), MailKind::kEager);
  taken_ = total();
  return true;
}

bool Outgoing::IsRead(const PeContext& context) const {
  const host::DirectReads reads = context.mail->ReadsDirectly(receiver_);
  if (fate_ == Fate::kOverwritten || total() < kLeastDirectBytes || reads == host::DirectReads::kNone) return false;
  // Within a process pages make no difference.
  bool is_huge = fate_ == Fate::kKept && total() >= kLeastHugeBytes && !context.heap->IsLocal(receiver_);
  if (is_huge) {
    memory_.ForEach(0, total(), [&](size_t, const char* memory, size_t, size_t bytes) {
      is_huge = context.huge_pages->Hold(memory, bytes) && is_huge;
    });
  }
  return is_huge || reads == host::DirectReads::kAll;
}

bool Outgoing::OfferDirect(const PeContext& context, size_t ready) {
  if (memory_.count() * sizeof(char*) > context.mail->eager_bytes()) return false;
  mail_ = context.mail->Claim(receiver_, key_);
  if (mail_.entry == nullptr) return false;
  auto** addresses = reinterpret_cast<char**>(mail_.data);
  for (size_t i = 0; i < memory_.count(); ++i) addresses[i] = memory_.memory(i);
  context.mail->Post(receiver_, mail_, key_, total(), ready, MailKind::kDirect);
  way_ = Way::kDirect;
  return true;
}

bool Outgoing::AdvanceDirect(const PeContext& context, size_t ready) {
  MailEntry& entry = *mail_.entry;
  const uint64_t taken = entry.taken.load(std::memory_order_acquire);
  if (taken == kRefused || taken == total()) {
    context.mail->Free(mail_);
    way_ = Way::kUndecided;
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

bool Outgoing::AdvanceStaged(const PeContext& context, size_t ready) {
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

bool Outgoing::Blocked(const PeContext& context) const {
  if (done()) return false;
  switch (way_) {
    case Way::kUndecided: {
      if (total() <= context.mail->eager_bytes() && context.mail->HasRoom(receiver_, key_)) return false;
      SendChannel probe;
      return !probe.Open(context, receiver_, key_);
    }
    case Way::kDirect: {
      const uint64_t taken = mail_.entry->taken.load(std::memory_order_acquire);
      return taken != kRefused && taken < mail_.entry->ready.load(std::memory_order_relaxed);
    }
    case Way::kStaged:
      return channel_.FreeSlot() == nullptr;
  }
  return false;
}

bool Outgoing::Answered() const {
  if (way_ != Way::kDirect) return way_ == Way::kStaged;
  return mail_.entry->taken.load(std::memory_order_acquire) != 0 ||
         mail_.entry->reading.load(std::memory_order_acquire) != 0;
}

void Outgoing::Revoke(const PeContext& context) {
  if (way_ != Way::kDirect || !context.heap->IsLocal(receiver_)) return;
  // Either the reader sees that the entry is no longer its message's, or we see that it reads (Incoming::ReadDirect).
  mail_.entry->state.store(0, std::memory_order_seq_cst);
  while (mail_.entry->reading.load(std::memory_order_seq_cst) != 0) sched_yield();
}

}  // namespace xla_shmem
