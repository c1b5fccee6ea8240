#include "tests/simulator/scheduler.h"

#include <cxxabi.h>
#include <errno.h>
#include <execinfo.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "tests/simulator/shared_memory.h"

namespace xla_shmem::simulator {

Scheduler& Scheduler::Get() {
  static auto* const scheduler = new Scheduler;
  return *scheduler;
}

void Scheduler::Configure(const Options& options) {
  options_ = options;
  random_.seed(options.seed);
}

Process* Scheduler::AddProcess(double speed) {
  processes_.push_back(std::make_unique<Process>(Process{static_cast<int>(processes_.size()), false, 0, speed}));
  return processes_.back().get();
}

Thread* Scheduler::Spawn(Process* process, std::string name, std::function<void()> body) {
  auto thread = std::make_unique<Thread>();
  thread->id = static_cast<int>(threads_.size());
  thread->process = process != nullptr ? process : current_->process;
  thread->name = std::move(name);
  thread->body = std::move(body);
  if (options_.weak_memory) {
    if (current_ != nullptr) {
      thread->sight.happened = current_->sight.happened;
      current_->sight.happened.Advance(current_->id);
    }
    thread->sight.happened.Advance(thread->id);
  }
  // With a page below it that ends a run whose stack overflows.
  const size_t bytes = options_.stack_bytes + 4096;
  void* const stack = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) Fail("no memory for the stack of a simulated thread");
  mprotect(stack, 4096, PROT_NONE);
  thread->stack = static_cast<char*>(stack);
  threads_.push_back(std::move(thread));
  Append(threads_.back().get());
  return threads_.back().get();
}

void Scheduler::Append(Thread* thread) {
  thread->state = Thread::State::kRunnable;
  thread->runnable_index = runnable_.size();
  runnable_.push_back(thread);
}

void Scheduler::Remove(Thread* thread) {
  runnable_.back()->runnable_index = thread->runnable_index;
  runnable_[thread->runnable_index] = runnable_.back();
  runnable_.pop_back();
}

void Scheduler::Enter() {
  Scheduler& scheduler = Get();
  OwnCode::SetDepth(0);
  scheduler.current_->body();
  const OwnCode own_code;
  Thread* const done = scheduler.current_;
  done->state = Thread::State::kDone;
  scheduler.Remove(done);
  scheduler.Wake(done);
  scheduler.SwitchAway(/*may_stay=*/false);
  abort();
}

void Scheduler::SwitchTo(Thread* next) {
  Thread* const from = current_;
  if (next == from) return;
  void* const exceptions = abi::__cxa_get_globals();
  if (from != nullptr) {
    from->error = errno;
    memcpy(from->exceptions, exceptions, sizeof(from->exceptions));
  }
  const int depth = OwnCode::depth();
  if (_setjmp(from == nullptr ? outside_ : from->context) != 0) {
    OwnCode::SetDepth(depth);
    return;
  }
  current_ = next;
  if (next == nullptr) _longjmp(outside_, 1);
  errno = next->error;
  memcpy(exceptions, next->exceptions, sizeof(next->exceptions));
  if (next->started) _longjmp(next->context, 1);
  next->started = true;
  ucontext_t start;
  getcontext(&start);
  start.uc_stack.ss_sp = next->stack + 4096;
  start.uc_stack.ss_size = options_.stack_bytes;
  start.uc_link = nullptr;
  makecontext(&start, Enter, 0);
  setcontext(&start);
}

Thread* Scheduler::Choose() {
  if (runnable_.empty()) return nullptr;
  const auto can_run = [&](const Thread* thread) { return thread->process->stopped_until <= now_; };
  for (int attempt = 0; attempt < 4; ++attempt) {
    Thread* const thread = runnable_[Below(runnable_.size())];
    if (can_run(thread) && (thread->process->speed >= 1 || Chance(thread->process->speed))) return thread;
  }
  const size_t first = Below(runnable_.size());
  for (size_t i = 0; i < runnable_.size(); ++i) {
    Thread* const thread = runnable_[(first + i) % runnable_.size()];
    if (can_run(thread)) return thread;
  }
  return nullptr;
}

void Scheduler::RunTimers() {
  while (!timers_.empty() && timers_.begin()->first <= now_) {
    const auto event = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    event();
  }
}

void Scheduler::SwitchAway(bool may_stay) {
  Thread* next = nullptr;
  while (true) {
    RunTimers();
    if (now_ > options_.time_limit_ns) Fail("not done after the limit of simulated time:\n" + Describe());
    next = Choose();
    if (next == current_ && !may_stay && runnable_.size() > 1) next = Choose();
    if (next != nullptr) break;
    // Nobody can run: time passes until something happens.
    int64_t soonest = timers_.empty() ? INT64_MAX : timers_.begin()->first;
    for (const Thread* thread : runnable_) soonest = std::min(soonest, thread->process->stopped_until);
    if (soonest == INT64_MAX) {
      for (const auto& thread : threads_) {
        if (thread->state != Thread::State::kDone && !thread->process->dead) Fail("deadlock:\n" + Describe());
      }
      break;  // all have ended
    }
    now_ = std::max(now_, soonest);
  }
  Trace(next == nullptr ? 0 : static_cast<uint64_t>(next->id) + 1);
  SwitchTo(next);
}

void Scheduler::Run() { SwitchAway(true); }

void Scheduler::Point() {
  if (current_ == nullptr || looking_) return;
  ++steps_;
  // No random number a step: the low bits of the counter do.
  now_ += static_cast<int64_t>(options_.tick_ns * static_cast<double>(steps_ % 4) / 1.5);
  if (current_->undivided > 0) return;
  if (Process& process = *current_->process; process.steps_to_event > 0 && --process.steps_to_event == 0) {
    std::exchange(process.event, nullptr)();
    SwitchAway(true);
  } else if (options_.pause_ns > 0 && Chance(options_.pause_chance)) {
    Block(&current_->context, now_ + static_cast<int64_t>(Below(static_cast<uint64_t>(options_.pause_ns))));
  } else if (Chance(options_.switch_chance)) {
    SwitchAway(true);
  }
}

void Scheduler::Yield() {
  if (current_ == nullptr || current_->undivided > 0) return;
  ++steps_;
  now_ += static_cast<int64_t>(options_.tick_ns * 4) + 1;
  SwitchAway(false);
}

bool Scheduler::Block(const void* key, int64_t until) {
  Thread* const thread = current_;
  if (thread->undivided > 0) Fail("a thread waits inside the initialisation of a static variable");
  thread->waits_for = key;
  thread->timed_out = false;
  thread->state = Thread::State::kBlocked;
  const uint64_t wait = ++thread->wait;
  Remove(thread);
  waiting_[key].push_back(thread);
  if (until != 0) {
    At(until, [this, thread, wait] {
      if (thread->process->dead || thread->state != Thread::State::kBlocked || thread->wait != wait) return;
      auto& others = waiting_[thread->waits_for];
      others.erase(std::find(others.begin(), others.end(), thread));
      thread->timed_out = true;
      Append(thread);
    });
  }
  SwitchAway(false);
  return !thread->timed_out;
}

int Scheduler::Wake(const void* key, int count) {
  const auto found = waiting_.find(key);
  if (found == waiting_.end()) return 0;
  int woken = 0;
  std::vector<Thread*>& threads = found->second;
  while (!threads.empty() && woken < count) {
    const size_t chosen = Below(threads.size());
    Thread* const thread = threads[chosen];
    threads.erase(threads.begin() + static_cast<ptrdiff_t>(chosen));
    if (thread->process->dead) continue;
    Append(thread);
    ++woken;
  }
  if (threads.empty()) waiting_.erase(key);
  return woken;
}

void Scheduler::At(int64_t time, std::function<void()> event) { timers_.emplace(time, std::move(event)); }

// Takes the process's threads out of the run as they are: nothing of it runs any more, no destructor either.
void Scheduler::Kill(Process* process) {
  process->dead = true;
  for (const auto& thread : threads_) {
    if (thread->process != process) continue;
    if (options_.weak_memory) process->ended.Join(thread->sight.happened);
    if (thread->state != Thread::State::kRunnable) continue;
    Remove(thread.get());
    thread->state = Thread::State::kBlocked;
  }
  if (current_ != nullptr && current_->process == process) SwitchAway(/*may_stay=*/false);
}

bool Scheduler::IsDead(int process) {
  const Process& asked = *processes_[static_cast<size_t>(process)];
  if (asked.dead && current_ != nullptr) current_->sight.happened.Join(asked.ended);
  return asked.dead;
}

std::string Scheduler::Describe() const {
  std::string text;
  for (const auto& thread : threads_) {
    if (thread->state == Thread::State::kDone) continue;
    text += "  process " + std::to_string(thread->process->number) + ", " + thread->name + ": " +
            (thread->process->dead                      ? "killed"
             : thread->state == Thread::State::kBlocked ? "waits"
             : thread.get() == current_                 ? "runs"
                                                        : "could run") +
            "\n";
  }
  return text;
}

void Scheduler::Fail(const std::string& why) {
  fprintf(stderr, "FAILED at step %llu, simulated time %.6f s, in %s: %s\n", static_cast<unsigned long long>(steps_),
          static_cast<double>(now_) * 1e-9,
          current_ == nullptr
              ? "no thread"
              : ("process " + std::to_string(current_->process->number) + ", " + current_->name).c_str(),
          why.c_str());
  void* frames[32];
  fflush(stderr);
  backtrace_symbols_fd(frames, backtrace(frames, 32), 2);
  _exit(1);
}

}  // namespace xla_shmem::simulator
