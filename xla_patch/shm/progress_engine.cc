#include "xla_patch/shm/progress_engine.h"

#include <sched.h>

#include <algorithm>
#include <exception>
#include <future>
#include <iterator>
#include <utility>

#include "xla_patch/shm/late_processes.h"

namespace xla_shmem::shm {
namespace {

// A sleeping thread wakes up to look at its waits.
constexpr auto kMaxSleep = WaitWatch::kInterval;

// The caller's thread polls an operation that keeps making progress for at most this many times `spin`, because XLA may
// have other work for the thread.
constexpr int kMaxInlineSpins = 10;
// And no longer than this or `spin`, however patient it is: only the engine sees that a peer is gone.
constexpr std::chrono::seconds kMostPatience{1};

// Peers start independent operations in about the same order, so those that can go on are mostly among the oldest. A
// pass over the front ends after this many operations without progress, and every so many passes one goes over all.
constexpr int kIdlePolls = 16;
constexpr int kPassesToWhole = 32;
// With so many operations in flight, a caller's thread does not wait for one of them: others can go on first.
constexpr size_t kCrowd = 8;

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

ProgressEngine::ProgressEngine(Heap* heap, std::chrono::microseconds spin, WaitLimits limits)
    : heap_(heap), spin_(spin), busy_polls_(BusyPolls(*heap)), watch_(heap, std::move(limits)) {}

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
    pending_.splice(pending_.end(), arrivals_);
    Operations left;
    FailAll(Status::Error("the process is shutting down"), &left);
    left.splice(left.end(), finished_);
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
  const auto give_up = [&] {
    heap_->FollowFailure();
    operation.Abandon();
    return status();
  };
  if (Poll(operation)) return true;
  if (failed_.load(std::memory_order_relaxed)) return give_up();
  if (unfinished_.load(std::memory_order_relaxed) >= kCrowd) return false;
  const auto spin = std::max(spin_, std::min<std::chrono::microseconds>(operation.Patience() * spin_, kMostPatience));
  Clock::time_point now = Clock::now();
  Clock::time_point until = now + spin;
  const Clock::time_point last = now + kMaxInlineSpins * spin;
  PollBackoff backoff(busy_polls_);
  do {
    backoff.Wait();
    if (Poll(operation)) return true;
    if (failed_.load(std::memory_order_relaxed)) return give_up();
    now = Clock::now();
    if (operation.made_progress()) {
      until = std::min(now + spin, last);
      backoff = PollBackoff(busy_polls_);
    }
  } while (now < until);
  return false;
}

void ProgressEngine::Submit(std::unique_ptr<Operation> operation, Completion completion, FindFault find_fault) {
  bool ring = false;
  operation->OnSubmit();
  WaitWatch::Wait wait{operation.get(), std::move(find_fault), Clock::now()};
  unfinished_.fetch_add(1, std::memory_order_relaxed);
  {
    std::unique_lock<std::mutex> lock(mutex_);
    arrivals_.push_back({std::move(operation), std::move(completion), std::move(wait), Status()});
    if (stopping_) return;  // called by a completion; the destructor fails this operation after it
    ring = polling_;
    if (!polling_ && !EnsureThread()) FailAllHere(lock);
  }
  if (ring) Ring(heap_->OwnBell());
}

Status ProgressEngine::Finish(std::unique_ptr<Operation> operation, FindFault find_fault) {
  // Shared, because the completion may still be in set_value when the caller goes on.
  const auto finished = std::make_shared<std::promise<Status>>();
  std::future<Status> status = finished->get_future();
  Submit(std::move(operation), [finished](const Status& how) { finished->set_value(how); }, std::move(find_fault));
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
  pending_.splice(pending_.end(), arrivals_);
  Operations failed;
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
      Operations finished = PollUntilFinished(lock);
      polling_ = false;
      finished_.splice(finished_.end(), finished);
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

ProgressEngine::Operations ProgressEngine::PollUntilFinished(std::unique_lock<std::mutex>& lock) {
  Operations finished;
  Clock::time_point spin_until = Clock::now() + spin_;
  PollBackoff backoff(busy_polls_);
  const auto restart_spin = [&] {
    spin_until = Clock::now() + spin_;
    backoff = PollBackoff(busy_polls_);
  };
  while (!stopping_ && finished.empty()) {
    if (!arrivals_.empty()) {
      pending_.splice(pending_.end(), arrivals_);
      restart_spin();
    }
    const Status status = status_;
    lock.unlock();
    if (!status.ok()) {
      FailAll(status, &finished);
    } else if (!PollOnce(++passes_ % kPassesToWhole == 0 ? Pass::kWhole : Pass::kFront, &finished) &&
               !CheckForFailure(&finished)) {
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

bool ProgressEngine::PollOnce(Pass pass, Operations* finished) {
  made_progress_ = false;
  int idle = 0;
  for (auto entry = pending_.begin(); entry != pending_.end();) {
    if (pass == Pass::kFront && idle == kIdlePolls) break;
    const auto next = std::next(entry);
    const bool is_done = Poll(*entry->operation);
    const bool made_progress = entry->operation->made_progress();
    entry->wait.made_progress |= made_progress;
    made_progress_ |= made_progress;
    if (is_done) {
      finished->splice(finished->end(), pending_, entry);
      unfinished_.fetch_sub(1, std::memory_order_relaxed);
    }
    if (!is_done && !made_progress) ++idle;
    entry = next;
  }
  return !finished->empty();
}

void ProgressEngine::FailAll(const Status& status, Operations* finished) {
  if (!pending_.empty()) heap_->FollowFailure();  // nothing if the job has failed because of this process
  for (Pending& entry : pending_) {
    entry.operation->Abandon();
    entry.status = status;
  }
  unfinished_.fetch_sub(pending_.size(), std::memory_order_relaxed);
  finished->splice(finished->end(), pending_);
}

bool ProgressEngine::CheckForFailure(Operations* finished) {
  const Clock::time_point now = Clock::now();
  if (now < next_check_ || pending_.empty()) return false;
  next_check_ = now + kMaxSleep;
  Status of_peer = heap_->JobStatus();
  Status status;
  if (of_peer.ok()) {
    status = FindFailure(now);
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

Status ProgressEngine::FindFailure(Clock::time_point now) {
  has_published_ = true;
  std::vector<WaitWatch::Wait*> waits;
  waits.reserve(pending_.size());
  for (Pending& entry : pending_) waits.push_back(&entry.wait);
  return watch_.Check(now, waits);
}

void ProgressEngine::SleepOnDoorbell(Operations* finished) {
  Doorbell& bell = heap_->OwnBell();
  const uint32_t ticket = PrepareSleep(bell);
  bool arrivals;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    arrivals = !arrivals_.empty() || stopping_;
  }
  if (!PollOnce(Pass::kWhole, finished) && !made_progress_ && !arrivals) Sleep(bell, ticket, kMaxSleep);
  FinishSleep(bell);
}

}  // namespace xla_shmem::shm
