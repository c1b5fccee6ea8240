// The base of all collectives on CPU: messages to peers, messages from peers, an optional reduction, and copies within
// the PE (docs/protocol.md, "A collective").
//
// The constructor of a collective declares its messages, and DeclareMore those that depend on what has come. This class
// does all the rest, from blocks to error texts. Nothing is sent before the first Poll.
#ifndef XLA_SHMEM_THUNKS_CPU_COLLECTIVE_OPERATION_H_
#define XLA_SHMEM_THUNKS_CPU_COLLECTIVE_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "xla_patch/shm/operation.h"
#include "xla_patch/thunks/cpu/blocks.h"
#include "xla_patch/thunks/cpu/message_key.h"
#include "xla_patch/thunks/cpu/message_receiver.h"
#include "xla_patch/thunks/cpu/message_sender.h"
#include "xla_patch/thunks/cpu/pe_context.h"
#include "xla_patch/thunks/cpu/protocol_choice.h"
#include "xla_patch/thunks/cpu/reducer.h"
#include "xla_patch/types/collective_op.h"

namespace xla_shmem {

using OperandCopies = std::vector<std::unique_ptr<char[]>>;

// Returns a copy that lives as long as `copies`.
const char* CopyOf(const char* operand, size_t bytes, OperandCopies* copies);

// XLA may give an operand and a result the same buffer. A collective supports this if operand i begins exactly at
// `in_place_at(i)` (null: not supported). With any other overlap, a result would overwrite the operand before it is
// read, so the operand is copied and `operands` then points to the copy. Returns true if an operand is in place in a
// result. `result_bytes(j)` and `operand_bytes(i)` give sizes; functions, because a vector of them costs an allocation
// in each execution.
template <typename ResultBytes, typename InPlaceAt, typename OperandBytes>
bool CopyOverlappingOperands(const std::vector<char*>& results, ResultBytes result_bytes, InPlaceAt in_place_at,
                             OperandBytes operand_bytes, std::vector<const char*>* operands, OperandCopies* copies) {
  bool any_in_place = false;
  for (size_t i = 0; i < operands->size(); ++i) {
    const char* const operand = (*operands)[i];
    const char* const operand_end = operand + operand_bytes(i);
    bool needs_copy = false;
    for (size_t j = 0; j < results.size(); ++j) {
      const char* const result_end = results[j] + result_bytes(j);
      if (operand >= result_end || results[j] >= operand_end) continue;
      const bool is_in_place = operand == in_place_at(i) && operand >= results[j] && operand_end <= result_end;
      any_in_place |= is_in_place;
      needs_copy |= !is_in_place;
    }
    if (needs_copy) (*operands)[i] = CopyOf(operand, operand_bytes(i), copies);
  }
  return any_in_place;
}

// Parts of the texts of errors.
//
// "run 5", or "run 5, execution 3 in it": numbers of MessageKey::execution as people count.
std::string NameRun(uint64_t execution);

// "all-reduce jit_f/psum.1 (400 bytes, 2 PEs) on PE 0, run 5". `bytes`: of the operands. `members`: of the group;
// 0 if it says nothing.
std::string NameExecution(CollectiveOp op, const std::string& name, size_t bytes, size_t members, int pe,
                          const MessageKey& key);

// Operation::Patience where a peer takes a share of a core or moves the bytes while this PE waits: 100 us, the usual
// time, for each 256 KiB, up to 8 MiB. With four processes on two cores permutes, all-gathers and all-reduces of 1 MiB
// took 0.7 to 0.8 of the time (docs/performance.md).
int PatienceFor(size_t bytes);

// "; not arrived at this operation: PE 1, 3"; "" if `missing` is empty.
std::string NameMissing(const std::set<int>& missing);

class CollectiveOperation : public Operation {
 public:
  bool Poll() override;
  bool made_progress() const override { return made_progress_; }
  int Patience() const override { return context_->is_oversubscribed ? PatienceFor(bytes_) : 1; }
  void OnSubmit() override { defer_grants_ = false; }
  std::string Describe(const std::set<int>& pes) const override;
  std::set<int> WaitsFor() const override;
  void Abandon() override;

 protected:
  // `members`: the number of PEs in the group, for errors; 0 if it says nothing.
  CollectiveOperation(const PeContext* context, CollectiveOp op, const MessageKey& key, std::string name,
                      size_t members);
  // Of the operands, for errors, where the largest message is not as large as they are.
  void SetBytes(size_t bytes) { bytes_ = bytes; }

  const PeContext& context() const { return *context_; }
  // The index of this PE in `group`.
  size_t IndexIn(const std::vector<int>& group) const;

  enum class Source {
    kOperands,  // ready from the start
    kReduced,   // ready as far as they have been reduced
  };
  // Declares the message of this key to `pe`. `overwritten`: as for MessageSender.
  void Send(int pe, const MessageKey& key, Spans memory, Source source = Source::kOperands, bool overwritten = false);
  // Declares the message of this key from `pe`. `overwritten_send`: index of the send whose memory this message
  // overwrites byte for byte, -1: none.
  void Receive(int pe, const MessageKey& key, Spans memory, int overwritten_send = -1);
  // Declares a reduction of this PE's part and a message of this key from every other member. `overwrites_sends`: the
  // result overwrites the memory of the sends.
  void ReduceFrom(const std::vector<int>& group, const MessageKey& key, Reducer reducer, bool overwrites_sends);
  // Declares a copy within this PE. `from` null: zeros. `overwrites_sends`: it overwrites the memory of the sends.
  void CopyLocally(const char* from, char* to, size_t bytes, bool overwrites_sends = false);
  // Called when all that was declared to come has come, and all copies have run, until it returns false: nothing more
  // is to come. May declare messages and copies, and throw.
  virtual bool DeclareMore() { return false; }
  // Gives back the blocks of messages that have come. An operation that waits for blocks must hold none.
  void GiveBackBlocks();

  // Copies of operands that overlap results in a way that the messages do not support.
  OperandCopies copies_;

 private:
  struct Sending {
    MessageSender message;
    Source source;
  };
  struct Receiving {
    MessageReceiver message;
    int overwritten_send;
  };
  struct LocalCopy {
    const char* from;
    char* to;
    size_t bytes;
  };

  // An execution that is measured.
  struct Trial {
    ProtocolChoice::Way way;
    size_t bytes;   // of its largest message
    int64_t began;  // when this PE reached it
  };

  // DeclareMore, and decides how its messages go.
  bool DeclareMoreMessages();
  // Decides how messages go that could go either way.
  void ChooseProtocol();
  // Everything has come.
  void RecordTrial(const Trial& trial) const;
  bool AdvanceOnce();
  bool AdvanceForAWhile();
  // True if the copies ran.
  bool RunLocalCopies();
  // Whether all that was declared to come has come, and been copied.
  bool HasReceived() const;
  bool Finished() const;
  // Grants blocks to all messages that may need one, if there are blocks for all of them.
  void OpenGrants();
  bool AnyNeedsGrant() const;
  void ForEachReceiver(const std::function<void(const MessageReceiver&)>& visit) const;

  const PeContext* const context_;
  const CollectiveOp op_;
  const MessageKey key_;
  const std::string name_;
  const size_t members_;
  size_t bytes_ = 0;  // for errors and patience

  std::vector<LocalCopy> local_copies_;  // not run yet
  bool copies_overwrite_sends_ = false;
  std::vector<Sending> sends_;
  std::vector<Receiving> receives_;
  std::optional<Reducer> reducer_;
  bool reduction_overwrites_sends_ = false;

  std::optional<ProtocolChoice::Way> way_;  // of messages with a choice, once there was one
  std::optional<Trial> trial_;
  std::vector<BlockSet> blocks_;
  bool short_of_blocks_ = false;
  bool made_progress_ = false;
  bool defer_grants_ = true;  // a message may still come to a mailbox, and then needs no grant
  int polls_ = 0;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_COLLECTIVE_OPERATION_H_
