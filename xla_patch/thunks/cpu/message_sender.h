// The sending end of a message: the choice of its protocol, and its progress (docs/protocol.md, "How a message
// travels").
//
// - eager: the message fits a free mailbox and is sent at once, as a whole;
// - rendezvous with a cross-memory read: the mailbox holds addresses, and the receiver reads the sender's memory;
// - rendezvous through slots: all other messages, through the slots of a channel that the receiver has granted.
//
// The sender chooses once; the receiver supports all three.
#ifndef XLA_SHMEM_THUNKS_CPU_MESSAGE_SENDER_H_
#define XLA_SHMEM_THUNKS_CPU_MESSAGE_SENDER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "xla_patch/thunks/cpu/channel.h"
#include "xla_patch/thunks/cpu/mailboxes.h"
#include "xla_patch/thunks/cpu/spans.h"

namespace xla_shmem {

// The least bytes of a message by cross-memory read. For smaller ones two copies are faster than the handshake about
// the addresses.
inline constexpr size_t kMinCrossMemoryReadBytes = 16 << 10;

class MessageSender {
 public:
  // `overwritten`: the bytes are overwritten as soon as they have left, so the receiver cannot read them in time.
  MessageSender(int receiver, const MessageKey& key, Spans memory, bool overwritten)
      : receiver_(receiver), key_(key), memory_(std::move(memory)), overwritten_(overwritten) {}

  int receiver() const { return receiver_; }
  size_t total() const { return memory_.total(); }
  // Positions whose bytes are no longer needed.
  size_t taken() const { return taken_; }
  bool done() const { return taken_ == memory_.total() && protocol_ != Protocol::kCrossMemoryRead; }

  // Whether it may travel by a cross-memory read or through slots, as the sender likes. Before the first Advance.
  bool HasChoice(const PeContext& context) const;
  // Of a message with a choice, before the first Advance: how it goes, and when this PE reached the operation; 0:
  // nobody measures.
  void Choose(bool reads, int64_t began) {
    may_be_read_ = reads;
    began_ = began;
  }

  // Sends as many of the first `ready` positions as possible. True if it made progress.
  bool Advance(const PeContext& context, size_t ready);

  // True if this cannot proceed before the receiver does something.
  bool WaitsForReceiver(const PeContext& context) const;
  // The receiver has reached the operation: it reads this message or has granted it a channel. Always false for an
  // eager message.
  bool ReceiverArrived() const;
  // The job has failed: waits until no thread of this process reads the bytes, and prevents further reads.
  void Revoke(const PeContext& context);

 private:
  enum class Protocol { kUndecided, kCrossMemoryRead, kSlots };

  bool MayBeRead(const PeContext& context) const;
  bool ChooseProtocol(const PeContext& context, size_t ready);
  bool SendEager(const PeContext& context);
  bool OfferCrossMemoryRead(const PeContext& context, size_t ready);
  bool AdvanceCrossMemoryRead(const PeContext& context, size_t ready);
  bool AdvanceThroughSlots(const PeContext& context, size_t ready);
  void FillSlot(const PeContext& context, char* slot, size_t begin, size_t end) const;

  const int receiver_;
  const MessageKey key_;
  Spans memory_;
  const bool overwritten_;
  std::optional<bool> may_be_read_;  // set at the first choice of a protocol
  int64_t began_ = 0;
  Protocol protocol_ = Protocol::kUndecided;
  size_t taken_ = 0;
  Mailbox mailbox_;      // of kCrossMemoryRead
  SendChannel channel_;  // of kSlots
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_MESSAGE_SENDER_H_
