// A message on its way in, however its sender chose to send it (outgoing.h).
#ifndef XLA_SHMEM_THUNKS_CPU_MESSAGE_RECEIVER_H_
#define XLA_SHMEM_THUNKS_CPU_MESSAGE_RECEIVER_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "xla_patch/thunks/cpu/channel.h"
#include "xla_patch/thunks/cpu/mailboxes.h"
#include "xla_patch/thunks/cpu/spans.h"

namespace xla_shmem {

class MessageReceiver {
 public:
  // `memory` is where the message goes, or buffers of the same sizes if it is only looked at.
  MessageReceiver(int sender, const MessageKey& key, Spans memory)
      : sender_(sender), key_(key), memory_(std::move(memory)) {}

  int sender() const { return sender_; }
  size_t total() const { return memory_.total(); }
  const Spans& memory() const { return memory_; }
  size_t consumed() const { return consumed_; }
  bool done() const { return consumed_ == total(); }

  // Bytes of the message from consumed() to `end`, in one piece. Empty while there are none.
  struct View {
    const char* data;
    size_t begin;
    size_t end;
  };
  View Look(const PeContext& context);
  // All before `end` has been used.
  void Consume(const PeContext& context, size_t end);
  // Moves what has come, up to position `limit`, to where it goes. True if anything has moved.
  bool Receive(const PeContext& context, size_t limit);

  // True if the sender can only go on with a grant; it may need one in any case while it has not been heard of.
  bool NeedsGrant(const PeContext& context) const;
  bool MayNeedGrant() const { return protocol_ == Protocol::kUndecided && block_ == nullptr && !done(); }
  // Lets the message be staged in this block, which stays the caller's.
  void Grant(const PeContext& context, char* block, const Geometry& geometry);
  bool granted() const { return block_ != nullptr; }
  // Takes a grant back that is still published. After the last message, or when the job is over.
  void Close(const PeContext& context);

  // True if, looked at now, the sender has to do something before this can finish.
  bool Waiting(const PeContext& context) const;
  // Its sender has come to the operation: this, or word of it, is here.
  bool Heard() const { return protocol_ != Protocol::kUndecided || refused_ || consumed_ > 0; }
  // Positions that the sender has sent, or lets us read.
  size_t sent() const { return std::max(consumed_, Arrived()); }

 private:
  enum class Protocol { kUndecided, kEager, kCrossMemoryRead, kSlots };

  // True once the message is on its way and it is known which.
  bool FindOut(const PeContext& context);
  // Positions that could be consumed, without waiting.
  size_t Arrived() const;
  bool ReadDirect(const PeContext& context, size_t end, char* bounce);
  void Refuse(const PeContext& context);

  const int sender_;
  const MessageKey key_;
  Spans memory_;
  size_t consumed_ = 0;
  Protocol protocol_ = Protocol::kUndecided;
  Mail mail_;
  uint64_t mail_state_ = 0;
  bool refused_ = false;  // it comes staged
  char* block_ = nullptr;
  Geometry geometry_{};
  ReceiveChannel channel_;
  std::unique_ptr<char[]> bounce_;  // of kDirect, when looked at
  View bounced_{nullptr, 0, 0};
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_MESSAGE_RECEIVER_H_
