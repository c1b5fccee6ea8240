#include "xla_patch/shm/progress_engine.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <future>
#include <iterator>
#include <set>
#include <utility>

#include "xla_patch/shm/late_processes.h"

namespace xla_shmem::shm {
namespace {

// How often a sleeping thread checks deadlines and whether other processes have exited.
constexpr auto kMaxSleep = std::chrono::milliseconds(100);

// The caller's thread polls an operation that keeps making progress for at most this many times `spin`, because XLA may
// have other work for the thread.
constexpr int kMaxInlineSpins = 10;

// Waits between two polls. Only the first waits are busy: the peer may be runnable on this core, and busy waits would
// delay it. A yield costs little if no other thread wants the core.
class PollBackoff {
 public:
  explicit PollBackoff(int busy_polls) : busy_polls_(busy_polls) {}

  void Wait() {
    if (polls_ < busy_polls_) {
      ++polls_;
      CpuRelax();
    } else {
      sched_yield();
    }
  }

 private:
  int busy_polls_;
  int polls_ = 0;
};

// One to two microseconds if every PE of the job can have a core. If not, a late peer most likely waits for one.
int BusyPolls(const Heap& heap) {
  constexpr int kCoreEach = 64, kOversubscribed = 2;
  return heap.IsOversubscribed() ? kOversubscribed : kCoreEach;
}

}  // namespace

ProgressEngine::ProgressEngine(Heap* heap, std::chrono::microseconds spin, std::chrono::nanoseconds deadline)
    : heap_(heap), spin_(spin), deadline_(deadline), busy_polls_(BusyPolls(*heap)) {}

ProgressEngine::~ProgressEngine() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  Ring(heap_->OwnBell());
  // From here on Submit starts no thread.
  for (std::thread& thread : threads_) thread.join();
  do {
    pending_.insert(pending_.end(), std::make_move_iterator(arrivals_.begin()),
                    std::make_move_iterator(arrivals_.end()));
    arrivals_.clear();
    std::vector<Pending> left;
    FailAll(Status::Error("the process is shutting down"), &left);
    left.insert(left.end(), std::make_move_iterator(finished_.begin()), std::make_move_iterator(finished_.end()));
    finished_.clear();
    for (Pending& entry : left) {
      entry.operation.reset();
      entry.completion(entry.status);
    }
  } while (!arrivals_.empty());
}

Result<bool> ProgressEngine::TryInline(Operation& operation) {
  if (failed_.load(std::memory_order_acquire)) return status();
  // A process that has given up may have sent its part before.
  if (const Status of_peer = heap_->JobStatus(); !of_peer.ok()) {
    heap_->FollowFailure();
    return SetFailureOfPeer(of_peer, operation);
  }
  if (Poll(operation)) return true;
  Clock::time_point now = Clock::now();
  Clock::time_point until = now + spin_;
  const Clock::time_point last = now + kMaxInlineSpins * spin_;
  PollBackoff backoff(busy_polls_);
  do {
    backoff.Wait();
    if (Poll(operation)) return true;
    if (failed_.load(std::memory_order_relaxed)) {
      heap_->FollowFailure();
      operation.Abandon();
      return status();
    }
    now = Clock::now();
    if (operation.made_progress()) {
      until = std::min(now + spin_, last);
      backoff = PollBackoff(busy_polls_);
    }
  } while (now < until);
  return false;
}

void ProgressEngine::Submit(std::unique_ptr<Operation> operation, Completion completion) {
  bool ring = false;
  operation->OnSubmit();
  {
    std::unique_lock<std::mutex> lock(mutex_);
    arrivals_.push_back({std::move(operation), std::move(completion), Clock::now() + deadline_, Status()});
    if (stopping_) return;  // called by a completion; the destructor fails this operation after it
    ring = polling_;
    if (!polling_ && !EnsureThread()) FailAllHere(lock);
  }
  if (ring) Ring(heap_->OwnBell());
}

Status ProgressEngine::Finish(std::unique_ptr<Operation> operation) {
  // Shared, because the completion may still be in set_value when the caller goes on.
  const auto finished = std::make_shared<std::promise<Status>>();
  std::future<Status> status = finished->get_future();
  Submit(std::move(operation), [finished](const Status& how) { finished->set_value(how); });
  return status.get();
}

Status ProgressEngine::Fail(const std::string& why) {
  heap_->Fail(why);
  std::lock_guard<std::mutex> lock(mutex_);
  return SetFailure(why);
}

bool ProgressEngine::Poll(Operation& operation) noexcept {
  try {
    return operation.Poll();
  } catch (const std::exception& error) {
    static_cast<void>(Fail(operation.Describe({}) + "; " + error.what()));
    return false;
  }
}

const Status& ProgressEngine::SetFailure(const std::string& why) {
  if (status_.ok()) status_ = Status::Error(why);
  failed_.store(true, std::memory_order_release);
  return status_;
}

Status ProgressEngine::SetFailureOfPeer(const Status& of_peer, const Operation& operation) {
  const std::string why = of_peer.message() + "; here: " + operation.Describe({});
  std::lock_guard<std::mutex> lock(mutex_);
  return SetFailure(why);
}

Status ProgressEngine::status() {
  std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

bool ProgressEngine::EnsureThread() {
  if (idle_threads_ > 0) {
    wake_.notify_one();
    return true;
  }
  if (thread_starting_) return true;
  // One at a time: hundreds of operations may finish together, and most completions take less time than the start of a
  // thread.
  thread_starting_ = true;
  try {
    threads_.emplace_back([this] { ThreadMain(); });
  } catch (const std::exception& error) {
    thread_starting_ = false;
    const std::string why = std::string("cannot start a thread that drives collectives: ") + error.what() +
                            "; raise the limit of processes (ulimit -u, or pids.max of the container)";
    heap_->Fail(why);
    SetFailure(why);
    return false;
  }
  return true;
}

void ProgressEngine::FailAllHere(std::unique_lock<std::mutex>& lock) {
  pending_.insert(pending_.end(), std::make_move_iterator(arrivals_.begin()), std::make_move_iterator(arrivals_.end()));
  arrivals_.clear();
  std::vector<Pending> failed;
  FailAll(status_, &failed);
  lock.unlock();
  for (Pending& entry : failed) {
    entry.operation.reset();
    entry.completion(entry.status);
  }
  lock.lock();
}

void ProgressEngine::ThreadMain() {
  std::unique_lock<std::mutex> lock(mutex_);
  thread_starting_ = false;
  while (true) {
    if (!finished_.empty()) {
      RunOneCompletion(lock);
    } else if (stopping_) {
      return;
    } else if (polling_ || (arrivals_.empty() && pending_.empty())) {
      ++idle_threads_;
      wake_.wait(lock);
      --idle_threads_;
    } else {
      polling_ = true;
      std::vector<Pending> finished = PollUntilFinished(lock);
      polling_ = false;
      finished_.insert(finished_.end(), std::make_move_iterator(finished.begin()),
                       std::make_move_iterator(finished.end()));
    }
  }
}

void ProgressEngine::RunOneCompletion(std::unique_lock<std::mutex>& lock) {
  {
    Pending entry = std::move(finished_.front());
    finished_.pop_front();
    const bool to_poll = !polling_ && (!arrivals_.empty() || !pending_.empty());
    if (!stopping_ && (to_poll || !finished_.empty()) && !EnsureThread() && to_poll) FailAllHere(lock);
    lock.unlock();
    entry.operation.reset();
    entry.completion(entry.status);
  }
  lock.lock();
}

std::vector<ProgressEngine::Pending> ProgressEngine::PollUntilFinished(std::unique_lock<std::mutex>& lock) {
  std::vector<Pending> finished;
  Clock::time_point spin_until = Clock::now() + spin_;
  PollBackoff backoff(busy_polls_);
  const auto restart_spin = [&] {
    spin_until = Clock::now() + spin_;
    backoff = PollBackoff(busy_polls_);
  };
  while (!stopping_ && finished.empty()) {
    if (!arrivals_.empty()) {
      pending_.insert(pending_.end(), std::make_move_iterator(arrivals_.begin()),
                      std::make_move_iterator(arrivals_.end()));
      arrivals_.clear();
      restart_spin();
    }
    const Status status = status_;
    lock.unlock();
    if (!status.ok()) {
      FailAll(status, &finished);
    } else if (!PollOnce(&finished) && !CheckForFailure(&finished)) {
      if (made_progress_) {
        restart_spin();
      } else if (Clock::now() < spin_until) {
        backoff.Wait();
      } else {
        SleepOnDoorbell(&finished);
        restart_spin();
      }
    }
    // After a failure what this process waited for stays: a deadline of another process may pass at the same time.
    if (has_published_ && pending_.empty() && !failed_.load(std::memory_order_relaxed)) {
      has_published_ = false;
      PublishNoWaits(*heap_);
    }
    lock.lock();
  }
  return finished;
}

bool ProgressEngine::PollOnce(std::vector<Pending>* finished) {
  made_progress_ = false;
  for (size_t i = 0; i < pending_.size();) {
    const bool is_done = Poll(*pending_[i].operation);
    made_progress_ |= pending_[i].operation->made_progress();
    if (is_done) {
      finished->push_back(std::move(pending_[i]));
      if (i + 1 != pending_.size()) pending_[i] = std::move(pending_.back());
      pending_.pop_back();
    } else {
      ++i;
    }
  }
  return !finished->empty();
}

void ProgressEngine::FailAll(const Status& status, std::vector<Pending>* finished) {
  if (!pending_.empty()) heap_->FollowFailure();  // nothing if the job has failed because of this process
  for (Pending& entry : pending_) {
    entry.operation->Abandon();
    entry.status = status;
    finished->push_back(std::move(entry));
  }
  pending_.clear();
}

bool ProgressEngine::CheckForFailure(std::vector<Pending>* finished) {
  const Clock::time_point now = Clock::now();
  if (now < next_check_ || pending_.empty()) return false;
  const bool was_away = now - next_check_ > kMaxSleep;
  next_check_ = now + kMaxSleep;
  Status of_peer = heap_->JobStatus();
  Status status;
  if (of_peer.ok()) {
    PublishPending();
    status = FindFailure(now, was_away);
    if (status.ok()) return false;
    // A process that has exited between the two calls may have published why; then its exit is not the cause.
    of_peer = heap_->JobStatus();
  }
  if (of_peer.ok()) {
    status = Fail(status.message());
  } else {
    // The peer has published its error to every process.
    status = SetFailureOfPeer(of_peer, *pending_.front().operation);
  }
  FailAll(status, finished);
  return true;
}

Status ProgressEngine::FindFailure(Clock::time_point now, bool was_away) {
  const auto late =
      std::find_if(pending_.begin(), pending_.end(), [&](const Pending& entry) { return now > entry.deadline; });
  // A process that was stopped itself may have all that it waits for. It polls once more before it gives up.
  polls_once_more_ = late != pending_.end() && was_away && !polls_once_more_;
  if (late != pending_.end() && !polls_once_more_) return PastDeadline(*late->operation);
  for (int pe = 0; pe < heap_->n_pes(); ++pe) {
    if (heap_->IsLocal(pe) || heap_->Alive(pe)) continue;
    // The process may have sent everything before it exited, so only operations that still wait for it fail.
    for (const Pending& entry : pending_) {
      if (entry.operation->WaitsFor().count(pe) == 0) continue;
      return Status::Error(entry.operation->Describe({pe}) + "; process " + std::to_string(heap_->ProcessOf(pe)) +
                           " (PE " + std::to_string(pe) + ") has exited");
    }
  }
  return Status();
}

Status ProgressEngine::PastDeadline(const Operation& operation) const {
  const std::set<int> awaited = operation.WaitsFor();
  // A process that waits looks every 100 ms.
  const auto patience = std::max<std::chrono::nanoseconds>(deadline_ / 2, 5 * kMaxSleep);
  const std::vector<LateProcess> late = FindLateProcesses(*heap_, awaited, patience);
  std::set<int> named;
  for (const int pe : awaited) {
    const bool is_late = std::any_of(late.begin(), late.end(),
                                     [&](const LateProcess& each) { return each.process == heap_->ProcessOf(pe); });
    if (is_late || late.empty()) named.insert(pe);
  }
  const bool waits_for_others =
      std::any_of(awaited.begin(), awaited.end(), [this](int pe) { return !heap_->IsLocal(pe); });
  char limit[32];
  snprintf(limit, sizeof(limit), "%.3g s", std::chrono::duration<double>(deadline_).count());
  return Status::Error(operation.Describe(named) + "; gave up after the deadline of " + limit +
                       " (XLA_SHMEM_DEADLINE)" + Describe(late) +
                       (late.empty() && waits_for_others ? "; each of these processes waits for another of them" : ""));
}

void ProgressEngine::PublishPending() {
  has_published_ = true;
  std::set<int> pes;
  for (const Pending& entry : pending_) pes.merge(entry.operation->WaitsFor());
  PublishWaits(*heap_, pes);
}

void ProgressEngine::SleepOnDoorbell(std::vector<Pending>* finished) {
  Doorbell& bell = heap_->OwnBell();
  const uint32_t ticket = PrepareSleep(bell);
  bool arrivals;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    arrivals = !arrivals_.empty() || stopping_;
  }
  if (!PollOnce(finished) && !arrivals) Sleep(bell, ticket, kMaxSleep);
  FinishSleep(bell);
}

}  // namespace xla_shmem::shm
