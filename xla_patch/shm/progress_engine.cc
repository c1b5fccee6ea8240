#include "xla_patch/shm/progress_engine.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

namespace xla_shmem::shm {
namespace {

// How often a sleeping poller looks at deadlines and at the lives of other processes.
constexpr auto kLongestSleep = std::chrono::milliseconds(100);

// How long the caller's thread goes on with an operation that gets further all the time, in units of the time that it
// waits for one that does not: XLA may have other work for it.
constexpr int kLongestInline = 10;

// Looks at memory that may change any moment, one turn at a time. Only the first turns are busy: the peer we wait for
// may be runnable on this very core, and then every further spin delays it. A yield costs little when nobody else wants
// the core.
class PoliteWait {
 public:
  explicit PoliteWait(int busy_turns) : busy_turns_(busy_turns) {}

  void Turn() {
    if (turns_ < busy_turns_) {
      ++turns_;
      CpuRelax();
    } else {
      sched_yield();
    }
  }

 private:
  int busy_turns_;
  int turns_ = 0;
};

// One to two microseconds where every process of the job can have a core. Where they cannot, a peer that is late most
// likely waits for one.
int BusyTurns(const Heap& heap) {
  constexpr int kWithRoom = 64, kCrowded = 2;
  return heap.IsOversubscribed() ? kCrowded : kWithRoom;
}

}  // namespace

ProgressEngine::ProgressEngine(Heap* heap, std::chrono::microseconds spin, std::chrono::nanoseconds deadline)
    : heap_(heap), spin_(spin), deadline_(deadline), busy_turns_(BusyTurns(*heap)) {}

ProgressEngine::~ProgressEngine() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  Ring(heap_->OwnBell());
  // No thread is started from here on (see Submit).
  for (std::thread& thread : threads_) thread.join();
  do {
    pending_.insert(pending_.end(), std::make_move_iterator(arrivals_.begin()),
                    std::make_move_iterator(arrivals_.end()));
    arrivals_.clear();
    std::vector<Pending> left;
    FailAll("the process is shutting down", &left);
    left.insert(left.end(), std::make_move_iterator(finished_.begin()), std::make_move_iterator(finished_.end()));
    finished_.clear();
    for (Pending& entry : left) {
      entry.operation.reset();
      entry.completion(entry.error);
    }
  } while (!arrivals_.empty());
}

bool ProgressEngine::TryInline(Operation& operation, std::string* error) {
  if (failed_.load(std::memory_order_acquire)) {
    std::lock_guard<std::mutex> lock(mutex_);
    *error = failure_;
    return false;
  }
  if (operation.Poll()) return true;
  Clock::time_point now = Clock::now();
  Clock::time_point until = now + spin_;
  const Clock::time_point last = now + kLongestInline * spin_;
  PoliteWait wait(busy_turns_);
  do {
    wait.Turn();
    if (operation.Poll()) return true;
    now = Clock::now();
    if (operation.moved()) {
      until = std::min(now + spin_, last);
      wait = PoliteWait(busy_turns_);
    }
  } while (now < until);
  return false;
}

void ProgressEngine::Submit(std::unique_ptr<Operation> operation, Completion completion) {
  bool ring = false;
  operation->OnSubmit();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    arrivals_.push_back({std::move(operation), std::move(completion), Clock::now() + deadline_, ""});
    if (stopping_) return;  // by a completion that shutdown waits for: it fails this one afterwards
    if (!polling_) {
      SummonThread();
    } else {
      ring = true;
    }
  }
  if (ring) Ring(heap_->OwnBell());
}

std::string ProgressEngine::Fail(const std::string& why) {
  heap_->Fail(why);
  std::lock_guard<std::mutex> lock(mutex_);
  return SetFailure(why);
}

const std::string& ProgressEngine::SetFailure(const std::string& why) {
  if (failure_.empty()) failure_ = why;
  failed_.store(true, std::memory_order_release);
  return failure_;
}

std::string ProgressEngine::failure() {
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

void ProgressEngine::SummonThread() {
  if (idle_threads_ > 0) {
    wake_.notify_one();
  } else if (!thread_starting_) {
    // One at a time: hundreds of operations may finish together, and most completions are shorter than a thread's
    // start.
    thread_starting_ = true;
    threads_.emplace_back([this] { ThreadMain(); });
  }
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
      std::vector<Pending> finished = PollUntilSomethingFinished(lock);
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
    if (!stopping_ && (to_poll || !finished_.empty())) SummonThread();
    lock.unlock();
    entry.operation.reset();
    entry.completion(entry.error);
  }
  lock.lock();
}

std::vector<ProgressEngine::Pending> ProgressEngine::PollUntilSomethingFinished(std::unique_lock<std::mutex>& lock) {
  std::vector<Pending> finished;
  Clock::time_point spin_until = Clock::now() + spin_;
  PoliteWait wait(busy_turns_);
  const auto spin_anew = [&] {
    spin_until = Clock::now() + spin_;
    wait = PoliteWait(busy_turns_);
  };
  while (!stopping_ && finished.empty()) {
    if (!arrivals_.empty()) {
      pending_.insert(pending_.end(), std::make_move_iterator(arrivals_.begin()),
                      std::make_move_iterator(arrivals_.end()));
      arrivals_.clear();
      spin_anew();
    }
    const std::string failure = failure_;
    lock.unlock();
    if (!failure.empty()) {
      FailAll(failure, &finished);
    } else if (!PollOnce(&finished) && !CheckForTrouble(&finished)) {
      if (moved_) {
        spin_anew();
      } else if (Clock::now() < spin_until) {
        wait.Turn();
      } else {
        SleepOnDoorbell(&finished);
        spin_anew();
      }
    }
    lock.lock();
  }
  return finished;
}

bool ProgressEngine::PollOnce(std::vector<Pending>* finished) {
  moved_ = false;
  for (size_t i = 0; i < pending_.size();) {
    const bool is_done = pending_[i].operation->Poll();
    moved_ |= pending_[i].operation->moved();
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

void ProgressEngine::FailAll(const std::string& why, std::vector<Pending>* finished) {
  for (Pending& entry : pending_) {
    entry.operation->Abandon();
    entry.error = why;
    finished->push_back(std::move(entry));
  }
  pending_.clear();
}

bool ProgressEngine::CheckForTrouble(std::vector<Pending>* finished) {
  const Clock::time_point now = Clock::now();
  if (now < next_check_ || pending_.empty()) return false;
  next_check_ = now + kLongestSleep;
  std::string theirs = heap_->FailureText();
  std::string why;
  if (theirs.empty()) {
    why = Trouble(now);
    if (why.empty()) return false;
    // A process that has exited between the two may have said why: then its end is not the cause.
    theirs = heap_->FailureText();
  }
  if (theirs.empty()) {
    why = Fail(why);
  } else {
    // Their words reach every process from where they are: nothing to publish.
    why = theirs + "; here: " + pending_.front().operation->Describe();
    std::lock_guard<std::mutex> lock(mutex_);
    why = SetFailure(why);
  }
  FailAll(why, finished);
  return true;
}

std::string ProgressEngine::Trouble(Clock::time_point now) const {
  for (const Pending& entry : pending_) {
    if (now > entry.deadline) {
      char limit[32];
      snprintf(limit, sizeof(limit), "%.3g s", std::chrono::duration<double>(deadline_).count());
      return entry.operation->Describe() + "; gave up after the deadline of " + limit + " (XLA_SHMEM_DEADLINE)";
    }
  }
  for (int pe = 0; pe < heap_->n_pes(); ++pe) {
    if (heap_->IsLocal(pe) || heap_->Alive(pe)) continue;
    // It may have delivered just before it exited: what waits for it now waits in vain.
    for (const Pending& entry : pending_) {
      if (!entry.operation->WaitsFor(pe)) continue;
      return entry.operation->Describe() + "; process " + std::to_string(heap_->ProcessOf(pe)) + " (PE " +
             std::to_string(pe) + ") has exited";
    }
  }
  return "";
}

void ProgressEngine::SleepOnDoorbell(std::vector<Pending>* finished) {
  Doorbell& bell = heap_->OwnBell();
  const uint32_t ticket = PrepareSleep(bell);
  bool arrivals;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    arrivals = !arrivals_.empty() || stopping_;
  }
  if (!PollOnce(finished) && !arrivals) Sleep(bell, ticket, kLongestSleep);
  FinishSleep(bell);
}

}  // namespace xla_shmem::shm
