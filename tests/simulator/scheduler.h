// Simulated processes with threads, of which one runs at a time, on a simulated clock. A seed decides which.
//
// A thread is a stack of its own in this one process. It runs until it reaches a Point(), at which the scheduler may go
// on with any other thread: at every access to shared memory, every atomic operation, lock, wait and system call of the
// code under test (instrumentation.cc, system_calls.cc). Only one real thread exists, so one seed always gives the same
// run.
#ifndef XLA_SHMEM_TESTS_SIMULATOR_SCHEDULER_H_
#define XLA_SHMEM_TESTS_SIMULATOR_SCHEDULER_H_

#include <csetjmp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/simulator/vector_clock.h"

namespace xla_shmem::simulator {

using Random = std::mt19937_64;

struct Process {
  int number;
  bool dead = false;
  int64_t stopped_until = 0;  // simulated nanoseconds
  double speed = 1;           // the share of its turns that it takes
  bool is_traced = false;     // by a debugger, which has stopped it
  int64_t steps_to_event = 0;
  std::function<void()> event = {};  // Scheduler::AtWork
  VectorClock ended = {};            // what it had done when it died: whoever knows of its death sees all of that
};

// What a thread may see of memory whose stores are not ordered (memory_model.h).
struct Sight {
  VectorClock happened;       // before the thread's next step
  VectorClock fenced;         // stores before sequentially consistent fences that came before this thread's last one
  VectorClock release_fence;  // `happened` at the last release fence
  VectorClock acquirable;     // what relaxed loads have brought, for the next acquire fence
  uint64_t last_fence = 0;    // number of the last sequentially consistent fence
};

struct Thread {
  int id;
  Process* process;
  std::string name;
  std::function<void()> body;
  enum class State { kRunnable, kBlocked, kDone } state = State::kRunnable;
  const void* waits_for = nullptr;
  bool timed_out = false;
  uint64_t wait = 0;          // counts its waits, so that an old timer wakes no later wait
  size_t runnable_index = 0;  // in the scheduler's list
  int undivided = 0;          // > 0: no other thread may run, as while a static variable is initialised
  Sight sight;
  // Of the context that is not running.
  jmp_buf context;
  bool started = false;
  int error = 0;
  void* exceptions[2] = {};
  char* stack = nullptr;
};

class Scheduler {
 public:
  struct Options {
    uint64_t seed = 1;
    double switch_chance = 0.1;  // at each point
    double tick_ns = 20;         // of simulated time from one point to the next, in the mean
    double pause_chance = 0;     // at each point, that the thread rests
    int64_t pause_ns = 0;        // at most
    int64_t time_limit_ns = 600'000'000'000;
    size_t stack_bytes = 256 << 10;
    bool weak_memory = true;
  };

  static Scheduler& Get();
  void Configure(const Options& options);
  const Options& options() const { return options_; }

  Process* AddProcess(double speed);
  // A thread of `process`; null: of the caller's. What the caller has done happened before it.
  Thread* Spawn(Process* process, std::string name, std::function<void()> body);
  // Runs until every thread of a living process has ended. Fails the run at a deadlock.
  void Run();

  // Of the running thread; null outside of Run.
  static Thread* current() { return current_; }
  // While true, the code under test only looks, for a report: it reaches no points and sees the newest values.
  void SetLooking(bool looking) { looking_ = looking; }
  // Whether memory is modelled now: in a run, unless it is sequentially consistent.
  bool models_memory() const { return current_ != nullptr && options_.weak_memory && !looking_; }
  // Another thread may run now.
  void Point();
  // As Point, and another thread does run if one can.
  void Yield();
  // Waits for Wake(key); false if the simulated time `until` comes first (0: never).
  bool Block(const void* key, int64_t until = 0);
  // Wakes up to `count` threads that wait for `key`; returns how many.
  int Wake(const void* key, int count = 1 << 30);
  // Nanoseconds since the simulated boot.
  int64_t now() const { return now_; }
  // Calls `event` at the simulated time.
  void At(int64_t time, std::function<void()> event);
  // Calls `event` in the midst of what the process does: at its `steps`-th point from now on.
  static void AtWork(Process* process, int64_t steps, std::function<void()> event) {
    process->steps_to_event = steps;
    process->event = std::move(event);
  }
  void Kill(Process* process);
  // Whether the process has been killed, or has exited with Kill. If so, the caller sees all that it has done.
  bool IsDead(int process);
  void Stop(Process* process, int64_t until, bool by_debugger) {
    process->stopped_until = until;
    process->is_traced = by_debugger;
  }
  bool IsStopped(int process) const { return processes_[static_cast<size_t>(process)]->stopped_until > now_; }
  bool IsTraced(int process) const { return processes_[static_cast<size_t>(process)]->is_traced; }

  Random& random() { return random_; }
  bool Chance(double probability) { return static_cast<double>(random_() >> 11) < probability * 0x1p53; }
  uint64_t Below(uint64_t limit) { return random_() % limit; }

  // Ends the run with a sentence, the running thread's stack and a status of 1.
  [[noreturn]] void Fail(const std::string& why);
  // A hash of what has happened: equal for two runs of one seed.
  uint64_t trace() const { return trace_; }
  void Trace(uint64_t value) { trace_ = (trace_ ^ value) * 0x100000001b3ull; }
  uint64_t steps() const { return steps_; }
  // Last in a run: what each living thread does.
  std::string Describe() const;

 private:
  void SwitchTo(Thread* next);
  void SwitchAway(bool may_stay);
  Thread* Choose();
  void RunTimers();
  void Remove(Thread* thread);
  void Append(Thread* thread);
  static void Enter();

  Options options_;
  Random random_{1};
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<Thread*> runnable_;
  std::unordered_map<const void*, std::vector<Thread*>> waiting_;
  std::multimap<int64_t, std::function<void()>> timers_;
  inline static Thread* current_ = nullptr;
  jmp_buf outside_;
  bool looking_ = false;
  int64_t now_ = 1'000'000'000;
  uint64_t steps_ = 0;
  uint64_t trace_ = 0xcbf29ce484222325ull;
};

}  // namespace xla_shmem::simulator

#endif  // XLA_SHMEM_TESTS_SIMULATOR_SCHEDULER_H_
