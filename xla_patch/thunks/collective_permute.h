// Collective-permute over put and signal (docs/protocol.md, "Permute").
//
// Each PE sends its operands to at most one PE and receives its results from at most one: open chains, self-edges and
// PEs without a source (their results become zeros, as XLA defines it) are ordinary cases. There is no barrier, only
// the pairwise handshake. Several operands (combined permutes) travel as one message. Results may share memory with
// operands in any way.
#ifndef XLA_SHMEM_THUNKS_COLLECTIVE_PERMUTE_H_
#define XLA_SHMEM_THUNKS_COLLECTIVE_PERMUTE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "xla_patch/nvshmem/operation.h"
#include "xla_patch/thunks/channel.h"

namespace xla_shmem {

struct PermuteArguments {
  MessageKey key;
  std::string name;  // of the HLO instruction, for errors
  int source = -1;   // PE that sends to us, -1: none
  int target = -1;   // PE that we send to, -1: none
  std::vector<const char*> operands;
  std::vector<char*> results;
  std::vector<size_t> bytes;  // of each operand and of its result
};

class PermuteOperation : public Operation {
 public:
  PermuteOperation(const PeContext* context, PermuteArguments arguments);
  ~PermuteOperation() override;

  bool Poll() override;
  std::string Describe() const override;
  bool WaitsFor(int pe) const override;
  void Abandon() override;

 private:
  bool OpenReceive();
  bool OpenSend();
  void EnqueueSends(StreamHandle stream);
  void EnqueueReceives(StreamHandle stream);
  // Sends and receives on one stream, so that no byte is overwritten before it has been sent.
  void EnqueueInPlace(StreamHandle stream);
  void EnqueueReceive(const std::vector<Piece>& pieces, StreamHandle stream);

  const PeContext* const context_;
  PermuteArguments arguments_;
  std::vector<ByteRange> ranges_;
  size_t payload_ = 0;
  bool in_place_ = false;
  std::vector<std::unique_ptr<char[]>> copies_;  // of operands that results overlap askew

  StreamHandle send_stream_;
  StreamHandle receive_stream_;
  BlockSet blocks_;
  SendChannel send_;
  ReceiveChannel receive_;
  bool needs_send_ = false;
  bool needs_receive_ = false;
  bool send_enqueued_ = false;
  bool receive_enqueued_ = false;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_COLLECTIVE_PERMUTE_H_
