#include "xla_patch/thunks/cpu/in_process_collective.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "xla_patch/shm/copy_timer.h"
#include "xla_patch/shm/futex.h"
#include "xla_patch/types/invariant.h"

namespace xla_shmem {

namespace {

// The others are woken if so many bytes are to be written. One thread takes about 30 us for them (Xeon). Not tuned.
constexpr size_t kWorthHelp = 512 << 10;

class WorkerCount {
 public:
  explicit WorkerCount(std::atomic<int>* workers) : workers_(workers) {
    workers_->fetch_add(1, std::memory_order_seq_cst);
  }
  ~WorkerCount() { workers_->fetch_sub(1, std::memory_order_release); }
  WorkerCount(const WorkerCount&) = delete;
  WorkerCount& operator=(const WorkerCount&) = delete;

 private:
  std::atomic<int>* const workers_;
};

}  // namespace

InProcessMeeting::InProcessMeeting(size_t members, size_t cached_bytes)
    : cached_bytes_(cached_bytes), members_(members), has_arrived_(members), shares_(members) {}

bool InProcessMeeting::Arrive(size_t index, MemberBuffers buffers, const PlanInProcess& plan) {
  XLA_SHMEM_INVARIANT(index, <, members_.size());
  XLA_SHMEM_INVARIANT(HasArrived(index), ==, false);
  members_[index] = std::move(buffers);
  has_arrived_[index].store(true, std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 != members_.size()) return false;
  plan_ = plan(members_);
  is_streaming_ = plan_.written() >= cached_bytes_ * members_.size();
  left_.store(plan_.chunks(), std::memory_order_relaxed);
  for (size_t i = 0; i <= members_.size(); ++i) {
    const size_t begin = plan_.chunks() * i / members_.size();
    if (i < members_.size()) shares_[i].next.store(begin, std::memory_order_relaxed);
    if (i > 0) shares_[i - 1].end = begin;
  }
  is_planned_.store(true, std::memory_order_release);
  return true;
}

bool InProcessMeeting::Work(size_t index, bool* is_last) {
  *is_last = false;
  if (!is_planned_.load(std::memory_order_acquire)) return false;
  if (std::all_of(shares_.begin(), shares_.end(), [](const Share& share) { return share.IsTaken(); })) return false;
  bool worked = false;
  InProcessPlan::Scratch scratch;
  // Stop waits for workers that may not have seen its flag. A guard, because a chunk that needs memory may throw.
  const WorkerCount counted(&workers_);
  const shm::ScopedCopyTimer timer;
  for (size_t i = 0; i < shares_.size(); ++i) {
    Share& share = shares_[(index + i) % shares_.size()];
    while (!share.IsTaken() && !is_stopped_.load(std::memory_order_seq_cst)) {
      const size_t chunk = share.next.fetch_add(1, std::memory_order_relaxed);
      if (chunk >= share.end) break;
      plan_.Run(chunk, is_streaming_, &scratch);
      worked = true;
      *is_last = left_.fetch_sub(1, std::memory_order_acq_rel) == 1;
    }
  }
  return worked;
}

void InProcessMeeting::Stop() {
  is_stopped_.store(true, std::memory_order_seq_cst);
  while (workers_.load(std::memory_order_seq_cst) != 0) sched_yield();
}

std::shared_ptr<InProcessMeeting> InProcessMeetings::Join(const MessageKey& key, const std::vector<int>& group,
                                                          size_t cached_bytes) {
  const Key own{key, group[0]};
  Shard& shard = shards_[Hash()(own) >> 32 & (kShards - 1)];
  std::lock_guard<std::mutex> lock(shard.mutex);
  Joined& joined = shard.meetings[own];
  if (joined.meeting == nullptr) joined.meeting = std::make_shared<InProcessMeeting>(group.size(), cached_bytes);
  std::shared_ptr<InProcessMeeting> meeting = joined.meeting;
  XLA_SHMEM_INVARIANT(meeting->members(), ==, group.size());  // alike for all members
  if (++joined.members == group.size()) shard.meetings.erase(own);
  return meeting;
}

bool IsInProcess(const PeContext& context, const std::vector<int>& group) {
  return context.meetings != nullptr && group.size() > 1 &&
         std::all_of(group.begin(), group.end(), [&](int pe) { return context.heap->IsLocal(pe); });
}

InProcessCollective::InProcessCollective(const PeContext* context, CollectiveOp op, const MessageKey& key,
                                         std::string name, std::vector<int> group, MemberBuffers buffers,
                                         OperandCopies copies, size_t bytes, PlanInProcess plan)
    : context_(context),
      op_(op),
      key_(key),
      name_(std::move(name)),
      group_(std::move(group)),
      buffers_(std::move(buffers)),
      copies_(std::move(copies)),
      bytes_(bytes),
      plan_(std::move(plan)) {}

bool InProcessCollective::Poll() {
  made_progress_ = false;
  bool is_last = false;
  if (meeting_ == nullptr) {
    meeting_ = context_->meetings->Join(key_, group_, context_->llc_share);
    index_ = static_cast<size_t>(std::find(group_.begin(), group_.end(), context_->pe) - group_.begin());
    const bool planned = meeting_->Arrive(index_, std::move(buffers_), plan_);
    is_last = planned && meeting_->done();
    if (planned && meeting_->written() >= kWorthHelp) shm::Ring(context_->heap->OwnBell());
    made_progress_ = true;
  }
  bool ran_last = false;
  made_progress_ |= meeting_->Work(index_, &ran_last);
  // Other members may sleep in the progress engine of this process.
  if (is_last || ran_last) shm::Ring(context_->heap->OwnBell());
  return meeting_->done();
}

std::string InProcessCollective::Describe(const std::set<int>& pes) const {
  std::set<int> missing;
  for (const int pe : WaitsFor()) {
    if (pes.count(pe) != 0) missing.insert(pe);
  }
  return NameExecution(op_, name_, bytes_, group_.size(), context_->pe, key_) + NameMissing(missing);
}

std::set<int> InProcessCollective::WaitsFor() const {
  std::set<int> missing;
  for (size_t i = 0; i < group_.size() && meeting_ != nullptr; ++i) {
    if (!meeting_->HasArrived(i)) missing.insert(group_[i]);
  }
  return missing;
}

void InProcessCollective::Abandon() {
  if (meeting_ != nullptr) meeting_->Stop();
}

}  // namespace xla_shmem
