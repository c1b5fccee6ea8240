// A channel carries the messages of one operation from one PE to another: the handshake of docs/protocol.md on two
// streams.
//
//   receiver's block:  [arrived: one signal line][slot 0]...[slot n-1]
//   sender,   message m: wait credit > m - n;  put pieces into slot m mod n;  signal arrived := m + 1
//   receiver, message m: wait arrived > m;  consume slot m mod n;  signal credit := m + 1
//
// The words only grow while the channel lives and belong to one operation, so a value never means two things.
#ifndef XLA_SHMEM_THUNKS_CHANNEL_H_
#define XLA_SHMEM_THUNKS_CHANNEL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "xla_patch/nvshmem/api.h"
#include "xla_patch/thunks/chunks.h"
#include "xla_patch/thunks/grant_board.h"
#include "xla_patch/thunks/slot_pool.h"

namespace xla_shmem {

// What the operations of one local PE share.
struct PeContext {
  const TransportApi* api;
  int pe;
  char* heap;  // base of this PE's symmetric heap, which grants count offsets from
  GrantBoard* board;
  SlotPool* slots;
  SlotPool* reserve;  // for the smallest geometry only: keeps every operation moving when `slots` is used up
};

// Slots of a receiver's block.
struct Geometry {
  size_t slot_bytes;
  uint32_t num_slots;
};

// A receiver's blocks for one operation, all of one geometry.
struct BlockSet {
  Geometry geometry;
  SlotPool* pool = nullptr;
  std::vector<char*> blocks;
};

// Slots of a large message: big enough to amortise a handshake, small enough that a few of them stay in the L2 cache,
// so the receiver's copy reads what the sender's has just written. A first guess, not tuned (docs/performance.md). Less
// one line: a block of four such slots and its signal then fills a power of two (slot_pool.h).
inline constexpr size_t kSlotBytes = (256 << 10) - 64;
inline constexpr uint32_t kSlotsInFlight = 4;

// Takes `count` blocks for messages of `payload` padded bytes each: the preferred geometry, or smaller ones while the
// arena is nearly used up (docs/protocol.md, "No deadlock"). False if not even the smallest is to be had: call again
// later.
bool TakeBlocks(const PeContext& context, size_t payload, size_t count, BlockSet* set);
void ReturnBlocks(const BlockSet& set);

class ReceiveChannel {
 public:
  // Publishes the grant of `block`. False while no record is to be had: call again later. `stream` must be idle.
  bool Open(const PeContext& context, int sender, const MessageKey& key, char* block, const Geometry& geometry,
            StreamHandle stream);
  bool open() const { return block_ != nullptr; }

  int sender() const { return sender_; }

  // Enqueues the wait for the next message and returns where it will lie.
  const char* EnqueueArrival(const PeContext& context, StreamHandle stream);
  // Enqueues the return of the last arrived message's slot.
  void EnqueueCredit(const PeContext& context, StreamHandle stream);
  // Takes the grant back. All messages must have been consumed; the block is the caller's again.
  void Close(const PeContext& context, StreamHandle stream);

  // True, looked at now, while messages that were enqueued for have not arrived.
  bool Waiting() const;
  std::string Counters() const;

 private:
  uint64_t* arrived() const { return reinterpret_cast<uint64_t*>(block_); }

  int sender_ = -1;
  char* block_ = nullptr;
  Geometry geometry_{};
  int record_ = -1;
  uint64_t expected_ = 0;
};

class SendChannel {
 public:
  // Looks for the receiver's grant. False while there is none.
  bool Open(const PeContext& context, int receiver, const MessageKey& key);
  bool open() const { return credit_ != nullptr; }

  const Geometry& geometry() const { return geometry_; }

  // Enqueues one message: `pieces` of `buffers`, in stream order behind the slot's credit.
  void EnqueueMessage(const PeContext& context, const std::vector<const char*>& buffers,
                      const std::vector<Piece>& pieces, StreamHandle stream);

  // True, looked at now, while credits that were enqueued for have not come. False once the receiver has withdrawn its
  // grant: it has everything then, and the credit word may already count for another channel.
  bool Waiting() const;
  std::string Counters() const;

 private:
  int receiver_ = -1;
  char* block_ = nullptr;  // local address standing for the receiver's block
  const uint64_t* state_ = nullptr;
  uint64_t generation_ = 0;
  uint64_t* credit_ = nullptr;
  Geometry geometry_{};
  uint64_t sent_ = 0;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CHANNEL_H_
