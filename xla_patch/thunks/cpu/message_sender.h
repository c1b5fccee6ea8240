// A message on its way out: the choice of how it travels, and its progress (docs/protocol.md, "How a message travels").
//
//   eager   it fits a mailbox entry, and one is free: all of it goes there now
//   direct  the receiver reads our memory: a mailbox entry says where, and the receiver says when it has read
//   staged  all others: through the slots of a channel, once the receiver's grant is there
//
// The choice is the sender's and is made once; the receiver is ready for all three.
#ifndef XLA_SHMEM_THUNKS_CPU_MESSAGE_SENDER_H_
#define XLA_SHMEM_THUNKS_CPU_MESSAGE_SENDER_H_

#include <cstddef>
#include <optional>
#include <utility>

#include "xla_patch/thunks/cpu/channel.h"
#include "xla_patch/thunks/cpu/mailboxes.h"
#include "xla_patch/thunks/cpu/spans.h"

namespace xla_shmem {

// Messages of this many bytes are read directly where the receiver does; smaller ones are copied faster than the
// handshake about their memory takes.
inline constexpr size_t kLeastDirectBytes = 16 << 10;

class MessageSender {
 public:
  // `overwritten`: the bytes are overwritten as soon as they have left, so the receiver cannot read them in time.
  MessageSender(int receiver, const MessageKey& key, Spans memory, bool overwritten)
      : receiver_(receiver), key_(key), memory_(std::move(memory)), overwritten_(overwritten) {}

  int receiver() const { return receiver_; }
  size_t total() const { return memory_.total(); }
  // Positions whose bytes nobody will read any more.
  size_t taken() const { return taken_; }
  bool done() const { return taken_ == memory_.total() && protocol_ != Protocol::kCrossMemoryRead; }

  // Sends what can be sent of the first `ready` positions. True if anything has moved.
  bool Advance(const PeContext& context, size_t ready);

  // True if, looked at now, this cannot go on before the receiver does something.
  bool Blocked(const PeContext& context) const;
  // The receiver has come to the operation: it reads this message, or has granted it a channel. An eager one tells
  // nothing.
  bool Answered() const;
  // The job failed: waits until no thread of this process reads the bytes, and lets nobody start.
  void Revoke(const PeContext& context);

 private:
  enum class Protocol { kUndecided, kCrossMemoryRead, kSlots };

  bool Choose(const PeContext& context, size_t ready);
  bool SendEager(const PeContext& context);
  bool OfferDirect(const PeContext& context, size_t ready);
  bool AdvanceDirect(const PeContext& context, size_t ready);
  bool AdvanceStaged(const PeContext& context, size_t ready);

  const int receiver_;
  const MessageKey key_;
  Spans memory_;
  const bool overwritten_;
  std::optional<bool> may_be_read_;  // once it has been found out
  Protocol protocol_ = Protocol::kUndecided;
  size_t taken_ = 0;
  Mail mail_;            // of kDirect
  SendChannel channel_;  // of kStaged
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_MESSAGE_SENDER_H_
