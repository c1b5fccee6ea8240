// All-reduce over put and signal (docs/protocol.md, "All-reduce").
//
// Small messages, one-shot: everybody puts everything to everybody and reduces for itself, in group order.
// Larger ones, two-shot: every member owns one part of the buffers; the parts are put to their owners, which reduce
// them in group order and put the results to everybody (reduce-scatter, then all-gather), in chunks that overlap with
// each other. Either way all members compute the same bits. Result i may be operand i itself.
#ifndef XLA_SHMEM_THUNKS_ALL_REDUCE_H_
#define XLA_SHMEM_THUNKS_ALL_REDUCE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "xla_patch/nvshmem/operation.h"
#include "xla_patch/thunks/channel.h"
#include "xla_patch/thunks/reduction.h"

namespace xla_shmem {

struct AllReduceArguments {
  MessageKey key;
  std::string name;  // of the HLO instruction, for errors
  ReductionKind reduction = ReductionKind::kSum;
  std::vector<int> group;  // PEs in group order; ours is among them
  std::vector<ElementType> types;
  std::vector<const char*> operands;
  std::vector<char*> results;
  std::vector<size_t> bytes;
};

// Up to this many padded bytes one-shot is used. It moves (n-1) times the message a PE instead of 2(n-1)/n times, for
// one exchange of signals instead of two.
size_t OneShotLimitBytes(size_t group_size);

class AllReduceOperation : public Operation {
 public:
  AllReduceOperation(const PeContext* context, AllReduceArguments arguments);
  ~AllReduceOperation() override;

  bool Poll() override;
  std::string Describe() const override;
  bool WaitsFor(int pe) const override;
  void Abandon() override;

 private:
  // One chunk of the part that this PE reduces: what its host function is called with.
  struct ReduceStep {
    AllReduceOperation* operation;
    std::vector<Piece> pieces;
    std::vector<const char*> slots;  // by group index; ours is null
  };

  bool OpenReceives();
  bool OpenSends();
  void EnqueueOneShot();
  void EnqueueTwoShot();
  void EnqueueReduce(std::vector<Piece> pieces);
  void EnqueueResults(int owner, const std::vector<Piece>& pieces);
  static void RunReduce(void* step);

  int members() const { return static_cast<int>(arguments_.group.size()); }

  const PeContext* const context_;
  AllReduceArguments arguments_;
  int my_index_ = 0;
  size_t payload_ = 0;
  bool one_shot_ = false;
  std::vector<std::unique_ptr<char[]>> copies_;  // of operands that results overlap askew

  StreamHandle stream_;
  BlockSet blocks_;
  std::vector<SendChannel> sends_;        // by group index; ours stays closed
  std::vector<ReceiveChannel> receives_;  // by group index; ours stays closed
  std::vector<std::unique_ptr<ReduceStep>> steps_;
  bool enqueued_ = false;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_ALL_REDUCE_H_
