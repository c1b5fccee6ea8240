#include "xla_patch/thunks/cpu/message_receiver.h"

#include <algorithm>
#include <array>

#include "xla_patch/thunks/cpu/message_sender.h"
#include "xla_patch/thunks/cpu/peer_operations.h"
#include "xla_patch/types/invariant.h"

namespace xla_shmem {
namespace {

using shm::CrossMemoryReader;
using shm::RemotePiece;

// Bytes of the sender's memory that a view has: read into a buffer, they stay in the L2 cache until they have been
// reduced.
constexpr size_t kViewBytes = 128 << 10;
// Bytes that Receive reads at a time: so many that the cost of the system call is negligible.
constexpr size_t kCrossMemoryReadBytes = 4 << 20;
// Pieces that Receive takes before other messages have their turn.
constexpr int kPiecesAtOnce = 8;

}  // namespace

Mailbox MessageReceiver::FindMail(const PeContext& context, MailboxProtocol* protocol) const {
  return context.mailboxes->Find(sender_, context.peer_operations->KeyOf(sender_, key_), total(), protocol);
}

bool MessageReceiver::DetermineProtocol(const PeContext& context) {
  MailboxProtocol protocol;
  if (!refused_) mailbox_ = FindMail(context, &protocol);
  if (!refused_ && mailbox_.entry != nullptr) {
    protocol_ = protocol == MailboxProtocol::kEager ? Protocol::kEager : Protocol::kCrossMemoryRead;
    if (protocol_ == Protocol::kCrossMemoryRead) sender_began_ = mailbox_.entry->began.load(std::memory_order_acquire);
    if (channel_.open()) {
      channel_.Close(context);  // the sender needs no grant
      // An operation of this process may sleep because no record was free for its own grant.
      Ring(context.heap->OwnBell());
    }
    return true;
  }
  if (block_ == nullptr) return false;
  if (!channel_.open() && !channel_.Open(context, sender_, key_, block_, geometry_, consumed_)) return false;
  if (channel_.Arrived() == 0) return false;
  sender_began_ = channel_.SenderBegan();
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
      return mailbox_.entry->ready.load(std::memory_order_acquire);
    case Protocol::kSlots:
      return std::min(channel_.Arrived() * channel_.slot_bytes(), total());
  }
  return 0;
}

MessageReceiver::View MessageReceiver::Look(const PeContext& context, bool in_place) {
  const View nothing{nullptr, consumed_, consumed_};
  if (done() || (protocol_ == Protocol::kUndecided && !DetermineProtocol(context))) return nothing;
  // Before Arrived(), because after the last read the mailbox belongs to the sender again.
  if (bounced_.end > consumed_) return {bounced_.data + (consumed_ - bounced_.begin), consumed_, bounced_.end};
  const size_t arrived = Arrived();
  if (arrived <= consumed_) return nothing;
  switch (protocol_) {
    case Protocol::kUndecided:
      break;
    case Protocol::kEager:
      return {mailbox_.data + consumed_, consumed_, total()};
    case Protocol::kCrossMemoryRead: {
      const size_t end = std::min(arrived, consumed_ + kViewBytes);
      if (in_place && !sees_buffers_.has_value()) {
        if (!Hold()) return nothing;
        sees_buffers_ = SeesBuffers(context);
        Release();
      }
      if (in_place && *sees_buffers_) return {nullptr, consumed_, end};
      if (bounce_ == nullptr) bounce_ = std::make_unique<char[]>(std::min(kViewBytes, total()));
      if (!ReadCrossMemory(context, end, bounce_.get())) return nothing;
      bounced_ = {bounce_.get(), consumed_, end};
      Ring(context.heap->BellOf(sender_));
      return bounced_;
    }
    case Protocol::kSlots: {
      const uint64_t chunk = consumed_ / channel_.slot_bytes();
      const size_t begin = chunk * channel_.slot_bytes();
      const size_t end = std::min(begin + channel_.slot_bytes(), total());
      return {channel_.Slot(chunk) + (consumed_ - begin), consumed_, end};
    }
  }
  return nothing;
}

const char* MessageReceiver::InBuffer(const PeContext& context, size_t span, size_t offset, size_t bytes) const {
  const auto* addresses = reinterpret_cast<char* const*>(mailbox_.data);
  return context.cross_memory_reader->Find(sender_, addresses[span] + offset, bytes);
}

bool MessageReceiver::SeesBuffers(const PeContext& context) const {
  bool sees = true;
  memory_.ForEach(0, total(), [&](size_t span, char*, size_t, size_t bytes) {
    sees = sees && InBuffer(context, span, 0, bytes) != nullptr;
  });
  return sees;
}

bool MessageReceiver::Hold() const {
  MailboxEntry& entry = *mailbox_.entry;
  entry.reading.fetch_add(1, std::memory_order_seq_cst);
  if (entry.state.load(std::memory_order_seq_cst) == mailbox_.state) return true;
  Release();  // MessageSender::Revoke
  return false;
}

void MessageReceiver::Release() const { mailbox_.entry->reading.fetch_sub(1, std::memory_order_seq_cst); }

void MessageReceiver::Consume(const PeContext& context, size_t end) {
  XLA_SHMEM_INVARIANT(consumed_, <=, end);
  XLA_SHMEM_INVARIANT(end, <=, total());
  consumed_ = end;
  if (protocol_ == Protocol::kSlots) {
    const size_t slot = channel_.slot_bytes();
    // The sender needs no credit for the last chunk.
    if (!done() && end % slot == 0) channel_.Credit(context, end / slot);
  } else if (protocol_ == Protocol::kCrossMemoryRead && bounced_.end < end) {
    mailbox_.entry->taken.store(end, std::memory_order_release);
    if (done()) Ring(context.heap->BellOf(sender_));
  } else if (protocol_ == Protocol::kEager && done()) {
    context.mailboxes->Release(mailbox_);
  }
}

bool MessageReceiver::Receive(const PeContext& context, size_t limit) {
  XLA_SHMEM_INVARIANT(limit, <=, total());
  bool made_progress = false;
  for (int piece = 0; piece < kPiecesAtOnce && consumed_ < limit; ++piece) {
    if (protocol_ == Protocol::kUndecided && !DetermineProtocol(context)) break;
    if (protocol_ == Protocol::kCrossMemoryRead) {
      const size_t end = std::min({Arrived(), limit, consumed_ + kCrossMemoryReadBytes});
      if (end <= consumed_ || !ReadCrossMemory(context, end, nullptr)) break;
      consumed_ = end;
      Ring(context.heap->BellOf(sender_));
    } else {
      const View view = Look(context, /*in_place=*/false);
      const size_t end = std::min(view.end, limit);
      if (end <= consumed_) break;
      memory_.CopyFrom(view.data, consumed_, end);
      Consume(context, end);
    }
    made_progress = true;
  }
  return made_progress;
}

bool MessageReceiver::ReadCrossMemory(const PeContext& context, size_t end, char* bounce) {
  const auto* addresses = reinterpret_cast<char* const*>(mailbox_.data);
  std::array<RemotePiece, 64> pieces;
  size_t count = 0;
  const bool past_cache = bounce == nullptr && total() >= context.llc_share;
  auto outcome = CrossMemoryReader::Outcome::kDone;
  auto read = [&] {
    if (outcome == CrossMemoryReader::Outcome::kDone) {
      outcome = context.cross_memory_reader->Read(sender_, pieces.data(), count, past_cache);
    }
    count = 0;
  };
  if (!Hold()) return false;
  memory_.ForEach(consumed_, end, [&](size_t span, char* memory, size_t position, size_t bytes) {
    char* const local = bounce == nullptr ? memory : bounce + (position - consumed_);
    XLA_SHMEM_INVARIANT(count, <, pieces.size());
    pieces[count++] = {addresses[span] + (memory - memory_.memory(span)), local, bytes};
    if (count == pieces.size()) read();
  });
  read();
  // As long as this thread counts as a reader, so that `taken` is not that of other mail after MessageSender::Revoke.
  // Once all is taken, the mailbox may have other mail and other readers, so they are counted.
  MailboxEntry& entry = *mailbox_.entry;
  if (outcome == CrossMemoryReader::Outcome::kDone) entry.taken.store(end, std::memory_order_release);
  if (outcome == CrossMemoryReader::Outcome::kRefused) {
    context.mailboxes->AdvertiseDirectReads(sender_, false);
    entry.taken.store(kRefused, std::memory_order_release);
  }
  Release();
  if (outcome == CrossMemoryReader::Outcome::kRefused) RefuseCrossMemoryRead(context);
  return outcome == CrossMemoryReader::Outcome::kDone;  // kGone: the progress engine detects it
}

void MessageReceiver::RefuseCrossMemoryRead(const PeContext& context) {
  XLA_SHMEM_INVARIANT(refused_, ==, false);  // the message comes through slots from then on
  Ring(context.heap->BellOf(sender_));
  protocol_ = Protocol::kUndecided;
  refused_ = true;
  // Now, because this thread may sleep next, and only the grant lets the sender go on. It had been withdrawn.
  if (block_ != nullptr) channel_.Open(context, sender_, key_, block_, geometry_, consumed_);
}

bool MessageReceiver::NeedsGrant(const PeContext& context) const {
  if (!MayNeedGrant() || total() <= context.mailboxes->eager_bytes()) return false;
  return expects_slots_ || total() < kMinCrossMemoryReadBytes || !context.cross_memory_reader->Reads(sender_);
}

bool MessageReceiver::HasChoice(const PeContext& context) const {
  return total() >= kMinCrossMemoryReadBytes && context.cross_memory_reader->Reads(sender_) &&
         !context.heap->IsLocal(sender_);
}

void MessageReceiver::Grant(const PeContext& context, char* block, const Geometry& geometry) {
  XLA_SHMEM_INVARIANT(block_, ==, nullptr);
  XLA_SHMEM_INVARIANT(block, !=, nullptr);
  block_ = block;
  geometry_ = geometry;
  // If no record is free: later, in DetermineProtocol.
  channel_.Open(context, sender_, key_, block_, geometry_, consumed_);
}

void MessageReceiver::Close(const PeContext& context) {
  if (channel_.open()) channel_.Close(context);
}

bool MessageReceiver::WaitsForSender(const PeContext& context) const {
  if (done()) return false;
  switch (protocol_) {
    case Protocol::kEager:
      return false;
    case Protocol::kCrossMemoryRead:
      return std::max(consumed_, bounced_.end) < total();  // its memory is needed until the last read
    case Protocol::kSlots:
      return Arrived() < total();
    case Protocol::kUndecided: {
      MailboxProtocol protocol;
      if (!refused_ && FindMail(context, &protocol).entry != nullptr) {
        return protocol == MailboxProtocol::kCrossMemoryRead;
      }
      return !channel_.open() || channel_.Arrived() * channel_.slot_bytes() < total();
    }
  }
  return false;
}

}  // namespace xla_shmem
