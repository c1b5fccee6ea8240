// The collectives of the default backend, which calls of the pass mark (hlo/rewrite/marks.h).
//
// Gloo and MPI may keep XLA's thread until a collective is over. So a thread of this module looks every second, or more
// often in tests, which collectives are still under way. Those that it has seen twice are handed to the progress
// engine, where they wait as our own operations do: other processes see for whom this one waits, and a late process is
// reported.
#ifndef XLA_SHMEM_RUNTIME_MARKED_COLLECTIVES_H_
#define XLA_SHMEM_RUNTIME_MARKED_COLLECTIVES_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "xla_patch/runtime/observe/observer.h"
#include "xla_patch/shm/heap.h"
#include "xla_patch/shm/operation.h"
#include "xla_patch/shm/progress_engine.h"

namespace xla_shmem {

// A collective of a loaded program. XLA runs its executions on a PE one after the other. Only runs that two threads
// have launched may overlap; then some are not recorded.
class MarkedCollective {
 public:
  // `label`: for the user. `local_pes`: those of this process, which are consecutive.
  MarkedCollective(observe::Observer* observer, const observe::RecordedSite* site, std::string label, uint64_t bytes,
                   const std::vector<int>& local_pes);

  // On a local PE. `execution`: as in observe::Entry. An execution that has failed has a beginning without an end.
  void Begin(int pe, uint64_t execution);
  void End(int pe);

  // Odd while an execution is under way on the local PE, and never the same for two executions.
  uint64_t Count(int pe) const { return OfPe(pe).count.load(std::memory_order_acquire); }
  const std::vector<int>& local_pes() const { return local_pes_; }
  const std::string& label() const { return label_; }
  uint64_t bytes() const { return bytes_; }
  const observe::Site& site() const { return site_->site; }
  // The PEs that `pe` may wait for now: the others of its groups or pairs, without those of this process that are in
  // the collective too.
  std::set<int> WaitsFor(int pe) const;

 private:
  struct alignas(64) Progress {      // the PEs of a process run on threads of their own
    std::atomic<uint64_t> count{0};  // written with the mutex held
    std::mutex mutex;
    observe::Observer::Span span;  // of the execution under way; guarded by mutex
  };
  const Progress& OfPe(int pe) const { return progress_[static_cast<size_t>(pe - local_pes_.front())]; }
  Progress& OfPe(int pe) { return progress_[static_cast<size_t>(pe - local_pes_.front())]; }

  observe::Observer* const observer_;
  const observe::RecordedSite* const site_;
  const std::string label_;
  const uint64_t bytes_;  // of the operands
  const std::vector<int> local_pes_;
  std::vector<Progress> progress_;
};

// All of a process.
class MarkedCollectives {
 public:
  // `look_every`: time between two looks.
  MarkedCollectives(const shm::Heap* heap, shm::ProgressEngine* engine, observe::Observer* observer,
                    std::chrono::nanoseconds look_every);
  // The engine must have ended: it may hold executions.
  ~MarkedCollectives() { Stop(); }
  MarkedCollectives(const MarkedCollectives&) = delete;
  MarkedCollectives& operator=(const MarkedCollectives&) = delete;

  // The result is valid as long as this object, and the same for a program that is loaded again.
  MarkedCollective* Add(const observe::Site& site, uint64_t bytes);
  // Ends the thread. To be called before the engine ends.
  void Stop();

 private:
  // What the thread has seen of a collective on a PE.
  struct Seen {
    uint64_t count = 0;
    bool is_watched = false;  // the engine has it
  };
  void Watch();
  void Look();

  const shm::Heap* const heap_;
  shm::ProgressEngine* const engine_;
  observe::Observer* const observer_;
  const std::chrono::nanoseconds look_every_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stops_ = false;                                                   // guarded by mutex_, as what follows
  std::map<std::pair<uint64_t, std::string>, MarkedCollective> marked_;  // by operation and name; they never move
  std::map<std::pair<const MarkedCollective*, int>, Seen> seen_;         // by PE
  std::thread thread_;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_RUNTIME_MARKED_COLLECTIVES_H_
