// A channel carries one message from one PE to another, in chunks, through slots that the receiver grants
// (docs/protocol.md, "A channel").
//
//   receiver's block:  [arrived, and when the sender began: one signal line][slot 0]...[slot n-1]
//   sender,   chunk m: wait credit > m - n;  put bytes into slot m mod n;  signal arrived := m + 1
//   receiver, chunk m: wait arrived > m;  consume slot m mod n;  signal credit := m + 1
//
// Chunk m is the range [m, m + 1) times the slot size of the message. Both ends begin with the first chunk of which the
// receiver lacks a byte: chunk 0, or a later one if it has read a part of the message before (message_receiver.h). The
// words belong to one message and only grow while the channel exists, so no value is ambiguous.
#ifndef XLA_SHMEM_THUNKS_CPU_CHANNEL_H_
#define XLA_SHMEM_THUNKS_CPU_CHANNEL_H_

#include <cstddef>
#include <cstdint>

#include "xla_patch/thunks/cpu/blocks.h"
#include "xla_patch/thunks/cpu/grant_board.h"
#include "xla_patch/thunks/cpu/message_key.h"
#include "xla_patch/thunks/cpu/pe_context.h"

namespace xla_shmem {

class ReceiveChannel {
 public:
  // Publishes the grant of `block` for the chunks that follow the first `consumed` bytes. False if no record is free:
  // call again later.
  bool Open(const PeContext& context, int sender, const MessageKey& key, char* block, const Geometry& geometry,
            size_t consumed = 0);
  bool open() const { return block_ != nullptr; }

  size_t slot_bytes() const { return geometry_.slot_bytes; }
  // All chunks before this one have arrived, or were not needed; 0 if none has arrived.
  uint64_t Arrived() const;
  const char* Slot(uint64_t chunk) const;
  // When the sender reached the operation; 0 if it did not look. Once a chunk has arrived.
  int64_t SenderBegan() const;
  // All chunks before this one have been consumed: the sender may reuse their slots.
  void Credit(const PeContext& context, uint64_t chunk);
  // Withdraws the grant and gives the block back to the caller. Either all chunks have been consumed, or it must be
  // certain that the sender puts none.
  void Close(const PeContext& context);

 private:
  int sender_ = -1;
  char* block_ = nullptr;
  Geometry geometry_{};
  int record_ = -1;
};

class SendChannel {
 public:
  // Looks for the receiver's grant. False while there is none.
  bool Open(const PeContext& context, int receiver, const MessageKey& key);
  bool open() const { return block_ != nullptr; }

  size_t slot_bytes() const { return geometry_.slot_bytes; }
  // The next chunk to send.
  uint64_t sent() const { return sent_; }
  // The slot of the next chunk, or null while there is no credit for it.
  char* FreeSlot() const;
  // When this PE reached the operation. Before the first Signal.
  void SetBegan(int64_t began);
  // Signals that the next chunk is in its slot.
  void Signal(const PeContext& context);

 private:
  int receiver_ = -1;
  char* block_ = nullptr;  // in the receiver's heap
  const uint64_t* credit_ = nullptr;
  Geometry geometry_{};
  uint64_t sent_ = 0;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_CHANNEL_H_
