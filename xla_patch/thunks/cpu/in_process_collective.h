// Collectives whose members are all PEs of this process. Everything lies in one address space, so there are no
// messages: the members meet, and whoever has come moves or reduces chunks of all buffers until nothing is left.
#ifndef XLA_SHMEM_THUNKS_CPU_IN_PROCESS_COLLECTIVE_H_
#define XLA_SHMEM_THUNKS_CPU_IN_PROCESS_COLLECTIVE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "xla_patch/shm/operation.h"
#include "xla_patch/thunks/cpu/collective_operation.h"
#include "xla_patch/thunks/cpu/in_process_plan.h"
#include "xla_patch/thunks/cpu/message_key.h"
#include "xla_patch/thunks/cpu/pe_context.h"
#include "xla_patch/thunks/cpu/ragged_numbers.h"
#include "xla_patch/types/collective_op.h"

namespace xla_shmem {

// The buffers of one member.
struct MemberBuffers {
  std::vector<const char*> operands;
  std::vector<char*> results;
  std::shared_ptr<const RaggedNumbers> numbers = nullptr;  // of a ragged all-to-all
};
// Plans the work of a collective; `members` in the order of the group. May throw, which fails the job.
using PlanInProcess = std::function<InProcessPlan(const std::vector<MemberBuffers>& members)>;

// One execution of a collective. Its members hold it together.
class InProcessMeeting {
 public:
  // `cached_bytes`: what each member may write and that then stays in the cache.
  InProcessMeeting(size_t members, size_t cached_bytes);

  // Member `index` has come. Its buffers stay valid until done() or Stop. The last one to come plans the work; true if
  // it is this one. If there is none, done() turned true.
  bool Arrive(size_t index, MemberBuffers buffers, const PlanInProcess& plan);
  size_t members() const { return members_.size(); }
  bool HasArrived(size_t index) const { return has_arrived_[index].load(std::memory_order_relaxed); }
  // Runs chunks until none is left that nobody has taken, first those of member `index`, so that a thread touches the
  // same parts of the buffers in each execution. True if it ran one; nothing before all have come. `*is_last`: it ran
  // the last chunk, so that done() turned true.
  bool Work(size_t index, bool* is_last);
  // Bytes that all chunks together write; only once the work is planned.
  size_t written() const { return plan_.written(); }
  // All is moved. Nobody touches the members' buffers any more.
  bool done() const {
    return is_planned_.load(std::memory_order_acquire) && left_.load(std::memory_order_acquire) == 0;
  }
  // Ends the work, done or not. When it returns nobody touches the members' buffers any more.
  void Stop();

 private:
  // The chunks that a member takes first.
  struct alignas(64) Share {
    std::atomic<size_t> next{0};  // to take
    size_t end = 0;
    bool IsTaken() const { return next.load(std::memory_order_relaxed) >= end; }
  };

  const size_t cached_bytes_;
  std::vector<MemberBuffers> members_;
  std::vector<std::atomic<bool>> has_arrived_;
  std::atomic<size_t> arrived_{0};
  InProcessPlan plan_;
  bool is_streaming_ = false;
  std::vector<Share> shares_;            // by member
  std::atomic<bool> is_planned_{false};  // orders plan_, is_streaming_ and shares_
  std::atomic<size_t> left_{0};          // chunks that are not finished
  std::atomic<bool> is_stopped_{false};
  std::atomic<int> workers_{0};  // threads in Work
};

// The meetings of this process that somebody is still missing from.
class InProcessMeetings {
 public:
  // The meeting of this key and group; called once by each member. `group`: PEs, alike for all members.
  std::shared_ptr<InProcessMeeting> Join(const MessageKey& key, const std::vector<int>& group, size_t cached_bytes);

 private:
  static constexpr size_t kShards = 16;
  struct Key {
    MessageKey message;
    int first_pe;  // of the group: a collective of several groups has one key
    bool operator==(const Key& other) const { return message == other.message && first_pe == other.first_pe; }
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      return (key.message.operation ^ key.message.execution) * 0x9e3779b97f4a7c15ull +
             static_cast<size_t>(key.first_pe);
    }
  };
  struct Joined {
    std::shared_ptr<InProcessMeeting> meeting;
    size_t members = 0;
  };
  struct Shard {
    std::mutex mutex;
    std::unordered_map<Key, Joined, Hash> meetings;
  };
  std::array<Shard, kShards> shards_;
};

// True if `group` has several members, all are PEs of this process, and such groups need no messages.
bool IsInProcess(const PeContext& context, const std::vector<int>& group);

// One member's part.
class InProcessCollective : public Operation {
 public:
  // `group`: PEs, with the local PE, alike for all members. `copies`: copies of operands that overlap results in a way
  // that the plan does not support. `bytes`: of the operands, for errors.
  InProcessCollective(const PeContext* context, CollectiveOp op, const MessageKey& key, std::string name,
                      std::vector<int> group, MemberBuffers buffers, OperandCopies copies, size_t bytes,
                      PlanInProcess plan);

  bool Poll() override;
  bool made_progress() const override { return made_progress_; }
  int Patience() const override { return PatienceFor(bytes_); }
  std::string Describe(const std::set<int>& pes) const override;
  std::set<int> WaitsFor() const override;
  void Abandon() override;

 private:
  const PeContext* const context_;
  const CollectiveOp op_;
  const MessageKey key_;
  const std::string name_;
  const std::vector<int> group_;
  MemberBuffers buffers_;  // until the first Poll
  const OperandCopies copies_;
  const size_t bytes_;
  const PlanInProcess plan_;
  std::shared_ptr<InProcessMeeting> meeting_;  // from the first Poll on
  size_t index_ = 0;                           // of the local PE in the group, from then on
  bool made_progress_ = false;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_IN_PROCESS_COLLECTIVE_H_
