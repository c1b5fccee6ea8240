// Turns transfers that do not finish into an error: a GPU stream cannot time out by itself.
//
// A host thread queries an event behind each transfer. A late transfer fails the job: the reason is printed and kept
// for later calls, and a trap ends all streams of the context, so that no program can read a result computed from data
// that did not arrive. If the streams do not end after the trap, the process exits.
//
// A report needs no answer of the GPU or the driver: the operation and its peers are printed before their counters are
// read. A second thread, which makes no driver call, ends the process if a driver call of the first does not return. A
// call blocks if another thread waits for room in a full queue.
#ifndef XLA_SHMEM_NVSHMEM_GPU_WATCHDOG_H_
#define XLA_SHMEM_NVSHMEM_GPU_WATCHDOG_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "xla_patch/nvshmem/gpu/device.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::gpu {

// What is known of a transfer that is late.
struct LateTransfer {
  std::string waits_for;  // "the operation has not finished; it waits for PE 1"
  // The same with the counters seen and expected, which it reads from the GPU; `waits_for` if it cannot. May be empty.
  std::function<std::string()> describe = nullptr;
  // Reads from the GPU why the transfer cannot end, before it is late; "" if nothing is known. May be empty.
  std::function<std::string()> find_fault = nullptr;
};

// The progress of kernels that exchange messages themselves.
struct KernelProgress {
  uint64_t* words;  // pinned (ProgressWord of kernels/arguments.h)
  std::function<LateTransfer(uint64_t operation)> describe;
};

// What the host knows of the other processes of the job (runtime/observe/recorded_peers.h).
struct PeerFacts {
  std::string lost;  // why a wait is in vain; "" if it need not be
  std::string late;  // "; process 1 (pid 7) is running"
};

class Watchdog {
 public:
  enum class Event {
    kWaits,      // a peer is late; the job goes on
    kLate,       // the job fails
    kDescribed,  // the same in other words, with what was read from the GPU
    kStuck,      // the streams have not ended a while after the trap, or the driver does not answer
  };
  using OnEvent = std::function<void(Event event, const std::string& reason)>;
  // The default: prints the reason; with kStuck the process then exits with status 70.
  static void PrintOrExit(Event event, const std::string& reason);
  static constexpr std::chrono::seconds kGrace{10};
  // After this time without progress a line tells of it, and again each time it has become twice as long.
  static constexpr std::chrono::seconds kLateAfter{60};
  static constexpr std::chrono::seconds kDriverAnswer{60};

  // `deadline`: of a time without progress; a century or more is none.
  Watchdog(Device* device, std::chrono::nanoseconds deadline, OnEvent on_event = {},
           std::chrono::milliseconds grace = kGrace, std::chrono::milliseconds late_after = kLateAfter);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // `begun`: reached when the GPU comes to the transfer. The deadline starts then, because a host may enqueue hours of
  // compute ahead of it.
  void Watch(EventRef begun, std::vector<EventRef> events, LateTransfer late);
  // From now on also watches the kernels that write these words.
  void WatchKernels(KernelProgress progress);
  // `ask` is called on the watchdog's thread, about once a second while a transfer does not go on.
  void SetAskPeers(std::function<PeerFacts()> ask);
  // Ok, or why the job has failed. A failed job stays failed.
  Status Check() const;
  std::chrono::nanoseconds deadline() const { return deadline_; }
  // Fails the job.
  void Fail(const std::string& reason);

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    EventRef begun;  // null once it was seen reached
    std::vector<EventRef> events;
    Clock::time_point since;
    LateTransfer late;
  };
  struct Failure {
    std::string reason;
    std::function<std::string()> describe;  // may be empty
  };

  void Run();
  // Ends the process if Run makes driver calls for longer than it says in `answer_by_`.
  void Guard();
  void ExpectAnswerWithin(std::chrono::nanoseconds time);
  void ExpectNoAnswer();
  // How long a driver call may take.
  std::chrono::nanoseconds AnswerTime() const { return std::min<std::chrono::nanoseconds>(deadline_, kDriverAnswer); }
  // What to do about a transfer that has not gone on since `since`.
  std::optional<Failure> Judge(Clock::time_point since, const LateTransfer& late);
  void TellIfLate(Clock::time_point since, const LateTransfer& late, const std::string& facts);
  std::optional<Failure> CheckTransfers(std::list<Entry>& entries);
  std::optional<Failure> CheckKernels();
  void Report(const Failure& failure);
  void End(std::list<Entry>& entries);

  Device* const device_;
  const std::chrono::nanoseconds deadline_;
  const OnEvent on_event_;
  const std::chrono::milliseconds grace_;
  const std::chrono::nanoseconds late_after_;
  CudaStream trap_stream_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::list<Entry> entries_;  // newest at the back
  std::string failure_;
  std::string oldest_;  // what the first unfinished transfer waits for
  struct WatchedKernels {
    KernelProgress progress;
    uint64_t begun_seen = 0;
    Clock::time_point since;
  };
  std::list<WatchedKernels> kernels_;
  bool stop_ = false;
  std::atomic<Clock::rep> answer_by_;
  std::function<PeerFacts()> ask_peers_;  // guarded by mutex_
  // Only the watchdog's thread uses these.
  Clock::time_point next_question_;
  PeerFacts facts_;
  Clock::time_point told_since_;  // the wait of which the next line tells
  Clock::time_point next_line_;
  std::thread thread_;
  std::thread guard_;
};

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_WATCHDOG_H_
