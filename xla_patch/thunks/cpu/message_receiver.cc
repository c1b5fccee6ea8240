#include "xla_patch/thunks/cpu/message_receiver.h"

#include <algorithm>
#include <array>

#include "xla_patch/thunks/cpu/message_sender.h"

namespace xla_shmem {
namespace {

using shm::CrossMemoryReader;
using shm::RemotePiece;

// What is read at a time to be looked at: it stays in the L2 cache until it has been reduced.
constexpr size_t kBounceBytes = 128 << 10;
// What is read at a time to stay: large enough that the kernel's call costs nothing beside it.
constexpr size_t kDirectBytes = 4 << 20;

}  // namespace

bool MessageReceiver::FindOut(const PeContext& context) {
  MailKind kind;
  if (!refused_) mail_ = context.mail->Find(sender_, key_, total(), &kind);
  if (!refused_ && mail_.entry != nullptr) {
    protocol_ = kind == MailKind::kEager ? Protocol::kEager : Protocol::kCrossMemoryRead;
    mail_state_ = mail_.entry->state.load(std::memory_order_relaxed);
    if (channel_.open()) channel_.Close(context);  // not needed
    return true;
  }
  if (block_ == nullptr) return false;
  if (!channel_.open() && !channel_.Open(context, sender_, key_, block_, geometry_)) return false;
  if (channel_.Arrived() == 0) return false;
  protocol_ = Protocol::kSlots;
  return true;
}

size_t MessageReceiver::Arrived() const {
  switch (protocol_) {
    case Protocol::kUndecided:
      return 0;
    case Protocol::kEager:
      return total();
    case Protocol::kCrossMemoryRead:
      return mail_.entry->ready.load(std::memory_order_acquire);
    case Protocol::kSlots:
      return std::min(channel_.Arrived() * channel_.slot_bytes(), total());
  }
  return 0;
}

MessageReceiver::View MessageReceiver::Look(const PeContext& context) {
  const View nothing{nullptr, consumed_, consumed_};
  if (done() || (protocol_ == Protocol::kUndecided && !FindOut(context))) return nothing;
  // First, because once all has been read the mailbox entry is the sender's again.
  if (bounced_.end > consumed_) return {bounced_.data + (consumed_ - bounced_.begin), consumed_, bounced_.end};
  const size_t arrived = Arrived();
  if (arrived <= consumed_) return nothing;
  switch (protocol_) {
    case Protocol::kEager:
      return {mail_.data + consumed_, consumed_, total()};
    case Protocol::kCrossMemoryRead: {
      if (bounce_ == nullptr) bounce_ = std::make_unique<char[]>(std::min(kBounceBytes, total()));
      const size_t end = std::min(arrived, consumed_ + kBounceBytes);
      if (!ReadDirect(context, end, bounce_.get())) return nothing;
      bounced_ = {bounce_.get(), consumed_, end};
      mail_.entry->taken.store(end, std::memory_order_release);
      Ring(context.heap->BellOf(sender_));
      return bounced_;
    }
    default: {
      const uint64_t chunk = consumed_ / channel_.slot_bytes();
      const size_t begin = chunk * channel_.slot_bytes();
      const size_t end = std::min(begin + channel_.slot_bytes(), total());
      return {channel_.Slot(chunk) + (consumed_ - begin), consumed_, end};
    }
  }
}

void MessageReceiver::Consume(const PeContext& context, size_t end) {
  consumed_ = end;
  if (protocol_ == Protocol::kSlots) {
    const size_t slot = channel_.slot_bytes();
    // After the last chunk nobody waits for credit.
    if (!done() && end % slot == 0) channel_.Credit(context, end / slot);
  } else if (protocol_ == Protocol::kEager && done()) {
    context.mail->Release(mail_);
  }
}

bool MessageReceiver::Receive(const PeContext& context, size_t limit) {
  bool moved = false;
  while (consumed_ < limit) {
    if (protocol_ == Protocol::kUndecided && !FindOut(context)) break;
    if (protocol_ == Protocol::kCrossMemoryRead) {
      const size_t end = std::min({Arrived(), limit, consumed_ + kDirectBytes});
      if (end <= consumed_ || !ReadDirect(context, end, nullptr)) break;
      consumed_ = end;
      mail_.entry->taken.store(end, std::memory_order_release);
      Ring(context.heap->BellOf(sender_));
    } else {
      const View view = Look(context);
      const size_t end = std::min(view.end, limit);
      if (end <= consumed_) break;
      memory_.CopyFrom(view.data, consumed_, end);
      Consume(context, end);
    }
    moved = true;
  }
  return moved;
}

bool MessageReceiver::ReadDirect(const PeContext& context, size_t end, char* bounce) {
  const auto* addresses = reinterpret_cast<char* const*>(mail_.data);
  std::array<RemotePiece, 64> pieces;
  size_t count = 0;
  auto outcome = CrossMemoryReader::Outcome::kDone;
  auto read = [&] {
    if (outcome == CrossMemoryReader::Outcome::kDone) outcome = context.direct->Read(sender_, pieces.data(), count);
    count = 0;
  };
  MailEntry& entry = *mail_.entry;
  entry.reading.store(1, std::memory_order_seq_cst);
  if (entry.state.load(std::memory_order_seq_cst) != mail_state_) {  // MessageSender::Revoke
    entry.reading.store(0, std::memory_order_seq_cst);
    return false;
  }
  memory_.ForEach(consumed_, end, [&](size_t span, char* memory, size_t position, size_t bytes) {
    char* const local = bounce == nullptr ? memory : bounce + (position - consumed_);
    pieces[count++] = {addresses[span] + (memory - memory_.memory(span)), local, bytes};
    if (count == pieces.size()) read();
  });
  read();
  entry.reading.store(0, std::memory_order_seq_cst);
  if (outcome == CrossMemoryReader::Outcome::kRefused) Refuse(context);
  return outcome == CrossMemoryReader::Outcome::kDone;  // gone: the engine will find out
}

void MessageReceiver::Refuse(const PeContext& context) {
  context.mail->AdvertiseDirectReads(sender_, false);
  mail_.entry->taken.store(kRefused, std::memory_order_release);
  Ring(context.heap->BellOf(sender_));
  protocol_ = Protocol::kUndecided;
  refused_ = true;
}

bool MessageReceiver::NeedsGrant(const PeContext& context) const {
  if (!MayNeedGrant() || total() <= context.mail->eager_bytes()) return false;
  return total() < kLeastDirectBytes || !context.direct->Reads(sender_);
}

void MessageReceiver::Grant(const PeContext& context, char* block, const Geometry& geometry) {
  block_ = block;
  geometry_ = geometry;
  channel_.Open(context, sender_, key_, block_, geometry_);  // or later, in FindOut
}

void MessageReceiver::Close(const PeContext& context) {
  if (channel_.open()) channel_.Close(context);
}

bool MessageReceiver::Waiting(const PeContext& context) const {
  if (done()) return false;
  switch (protocol_) {
    case Protocol::kEager:
      return false;
    case Protocol::kCrossMemoryRead:
      return true;  // its memory is needed until we are done
    case Protocol::kSlots:
      return Arrived() < total();
    case Protocol::kUndecided: {
      MailKind kind;
      if (!refused_ && context.mail->Find(sender_, key_, total(), &kind).entry != nullptr) {
        return kind == MailKind::kCrossMemoryRead;
      }
      return !channel_.open() || channel_.Arrived() * channel_.slot_bytes() < total();
    }
  }
  return false;
}

}  // namespace xla_shmem
