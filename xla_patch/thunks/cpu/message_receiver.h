// The receiving end of a message, by whichever protocol the sender has chosen (message_sender.h).
#ifndef XLA_SHMEM_THUNKS_CPU_MESSAGE_RECEIVER_H_
#define XLA_SHMEM_THUNKS_CPU_MESSAGE_RECEIVER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "xla_patch/thunks/cpu/channel.h"
#include "xla_patch/thunks/cpu/mailboxes.h"
#include "xla_patch/thunks/cpu/spans.h"

namespace xla_shmem {

class MessageReceiver {
 public:
  // `memory`: the destination for Receive; for Look, buffers of the same sizes and alignment.
  MessageReceiver(int sender, const MessageKey& key, Spans memory)
      : sender_(sender), key_(key), memory_(std::move(memory)) {}

  int sender() const { return sender_; }
  size_t total() const { return memory_.total(); }
  const Spans& memory() const { return memory_; }
  size_t consumed() const { return consumed_; }
  bool done() const { return consumed_ == total(); }

  // What has arrived of the message, from consumed() to `end`: contiguous bytes, or the sender's own buffers.
  struct View {
    const char* data;  // null for the sender's buffers
    size_t begin;
    size_t end;
    bool is_of_sender() const { return data == nullptr && begin < end; }
  };
  // `in_place`: the view may be of the sender's buffers. These are used between Hold and Release.
  View Look(const PeContext& context, bool in_place);
  // False if a sender of this process has its buffers back. Then there is nothing to release.
  bool Hold() const;
  void Release() const;
  // Where the sender's buffer `span` lies from `offset` on. The buffers are held.
  const char* InBuffer(const PeContext& context, size_t span, size_t offset, size_t bytes) const;
  // The caller has used all positions before `end`.
  void Consume(const PeContext& context, size_t end);
  // Copies the positions below `limit` that have arrived to their destination. True if it made progress.
  bool Receive(const PeContext& context, size_t limit);

  // Whether the sender has a choice between a cross-memory read and slots.
  bool HasChoice(const PeContext& context) const;
  // The sender is likely to choose slots.
  void ExpectSlots() { expects_slots_ = true; }
  bool came_through_slots() const { return protocol_ == Protocol::kSlots; }
  // When the sender reached the operation; 0 if it did not look, or nothing has come.
  int64_t sender_began() const { return sender_began_; }

  // True if the sender cannot proceed without a grant. As long as its protocol is not known, it may need one.
  bool NeedsGrant(const PeContext& context) const;
  bool MayNeedGrant() const { return protocol_ == Protocol::kUndecided && block_ == nullptr && !done(); }
  // Grants the message this block, which the caller keeps.
  void Grant(const PeContext& context, char* block, const Geometry& geometry);
  // Withdraws a published grant. Called after the last message, or when the job has failed.
  void Close(const PeContext& context);

  // True if this cannot finish before the sender does something more.
  bool WaitsForSender(const PeContext& context) const;
  // The sender has reached the operation: the message, or its addresses, have arrived.
  bool SenderArrived() const { return protocol_ != Protocol::kUndecided || refused_ || consumed_ > 0; }
  // The positions that the sender has sent or made readable.
  size_t sent() const { return std::max(consumed_, Arrived()); }

 private:
  enum class Protocol { kUndecided, kEager, kCrossMemoryRead, kSlots };

  Mailbox FindMail(const PeContext& context, MailboxProtocol* protocol) const;
  // True once the sender has sent something, which tells the protocol.
  bool DetermineProtocol(const PeContext& context);
  // The positions that can be consumed without waiting.
  size_t Arrived() const;
  bool ReadCrossMemory(const PeContext& context, size_t end, char* bounce);
  // Whether all buffers of the sender, which are held, lie in memory that this process has mapped.
  bool SeesBuffers(const PeContext& context) const;
  void RefuseCrossMemoryRead(const PeContext& context);

  const int sender_;
  const MessageKey key_;
  Spans memory_;
  size_t consumed_ = 0;
  Protocol protocol_ = Protocol::kUndecided;
  Mailbox mailbox_;
  bool refused_ = false;  // the message comes through slots
  bool expects_slots_ = false;
  int64_t sender_began_ = 0;
  char* block_ = nullptr;
  Geometry geometry_{};
  ReceiveChannel channel_;
  std::optional<bool> sees_buffers_;  // of a cross-memory read
  std::unique_ptr<char[]> bounce_;    // of cross-memory reads by Look
  View bounced_{nullptr, 0, 0};
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_MESSAGE_RECEIVER_H_
