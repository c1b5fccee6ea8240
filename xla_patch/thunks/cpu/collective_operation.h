// What all collectives on CPU are made of: messages to peers, messages from peers, perhaps a reduction, perhaps copies
// within the PE (docs/protocol.md, "A collective").
//
// A collective's constructor says what its messages are; everything else, from blocks to error texts, is here. Nothing
// happens before the first Poll.
#ifndef XLA_SHMEM_THUNKS_CPU_COLLECTIVE_OPERATION_H_
#define XLA_SHMEM_THUNKS_CPU_COLLECTIVE_OPERATION_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "xla_patch/shm/operation.h"
#include "xla_patch/thunks/cpu/blocks.h"
#include "xla_patch/thunks/cpu/message_key.h"
#include "xla_patch/thunks/cpu/message_receiver.h"
#include "xla_patch/thunks/cpu/message_sender.h"
#include "xla_patch/thunks/cpu/pe_context.h"
#include "xla_patch/thunks/cpu/reducer.h"

namespace xla_shmem {

class CollectiveOperation : public Operation {
 public:
  bool Poll() override;
  bool made_progress() const override { return made_progress_; }
  void OnSubmit() override { defer_grants_ = false; }
  std::string Describe() const override;
  bool WaitsFor(int pe) const override;
  void Abandon() override;

 protected:
  // `kind`: its name in HLO. `members`: how many PEs take part, 0 where that says nothing.
  CollectiveOperation(const PeContext* context, const char* kind, const MessageKey& key, std::string name,
                      size_t members);

  const PeContext& context() const { return *context_; }
  // Where this PE stands in `group`.
  size_t IndexIn(const std::vector<int>& group) const;

  enum class Source {
    kOperands,  // whole from the start
    kReduced,   // as far as the reduction has come
  };
  // The message of this key to `pe`.
  void Send(int pe, const MessageKey& key, Spans memory, Source source = Source::kOperands, bool overwritten = false);
  // The message of this key from `pe`. `behind`: number of a send whose memory this one overwrites byte for byte, -1:
  // none.
  void Receive(int pe, const MessageKey& key, Spans memory, int behind = -1);
  // The contributions to a reduction, by everybody's `own` or a message of this key. `over_sends`: the result
  // overwrites what is being sent.
  void ReduceFrom(const std::vector<int>& group, const MessageKey& key, Reducer reducer, bool over_sends);
  // Within this PE. No `from`: zeros. `over_sends`: it overwrites what is being sent.
  void CopyHere(const char* from, char* to, size_t bytes, bool over_sends = false);

  // Operands that have to be copied because results lie in them in a way that the messages do not cope with.
  std::vector<std::unique_ptr<char[]>> copies_;

 private:
  struct Sending {
    MessageSender message;
    Source source;
  };
  struct Receiving {
    MessageReceiver message;
    int behind;
  };
  struct LocalCopy {
    const char* from;
    char* to;
    size_t bytes;
  };

  bool AdvanceOnce();
  // Whether they ran.
  bool RunLocalCopies();
  bool Finished() const;
  void Finish();
  // Gives grants to all messages that may need one; false if there was no room for them.
  void OpenGrants();
  bool SomeNeedGrants() const;
  void ForEachIncoming(const std::function<void(const MessageReceiver&)>& visit) const;

  const PeContext* const context_;
  const char* const kind_;
  const MessageKey key_;
  const std::string name_;
  const size_t members_;
  size_t bytes_ = 0;  // for errors

  std::vector<LocalCopy> local_copies_;  // that have not run
  bool copies_over_sends_ = false;
  std::vector<Sending> sends_;
  std::vector<Receiving> receives_;
  std::optional<Reducer> reducer_;
  bool reduced_over_sends_ = false;

  std::vector<BlockSet> blocks_;
  bool short_of_blocks_ = false;
  bool made_progress_ = false;
  bool defer_grants_ = true;  // mail may still come, and then no grants are needed
  int polls_ = 0;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_COLLECTIVE_OPERATION_H_
