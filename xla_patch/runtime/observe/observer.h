// What a process notes about the collectives it runs: the flight recorder, always; statistics and a trace if asked for.
//
// Begin and End are on the fast path of small collectives: with the recorder alone they cost two readings of the clock
// and one line of memory.
#ifndef XLA_SHMEM_RUNTIME_OBSERVE_OBSERVER_H_
#define XLA_SHMEM_RUNTIME_OBSERVE_OBSERVER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "xla_patch/runtime/observe/flight_recorder.h"
#include "xla_patch/runtime/observe/statistics.h"
#include "xla_patch/runtime/observe/trace.h"

namespace xla_shmem::observe {

struct ObserverOptions {
  std::string record_directory;  // "": no flight recorder
  bool statistics = false;
  std::string trace_file;  // "": none
};

// A collective of a loaded program, written down once.
struct NotedSite {
  Site site;
  uint32_t number = 0;  // in the flight recorder
};

class Observer {
 public:
  // One execution that is under way.
  struct Span {
    const NotedSite* noted = nullptr;
    int pe = -1;
    int track = -1;
    Entry* entry = nullptr;
    uint64_t sequence = 0;
    uint64_t execution = 0;
    uint64_t start_ns = 0;
    uint64_t bytes = 0;
  };

  // Called once, before any other method. `processes`: of the job on this host. Returns what does not work as asked,
  // sentences for the user.
  std::vector<std::string> Start(const ObserverOptions& options, int process, const std::vector<int>& processes,
                                 const std::vector<int>& pes);

  // Lives as long as the process.
  const NotedSite* AddSite(Site site);

  // `bytes`: of the operands.
  Span Begin(int pe, const NotedSite* noted, uint64_t execution, uint64_t bytes);
  // It did not finish in the handler.
  void Waits(const Span& span);
  void End(const Span& span, uint64_t moved_ns, bool is_inline);
  // Returns `why` with what the records of the other processes add to it.
  std::string Fail(const Span& span, const std::string& why);

  // Whether the time spent moving data is asked for.
  bool measures_moves() const { return statistics_ != nullptr || trace_ != nullptr; }

  // Where `xla-shmem postmortem` finds this job, "" without a recorder.
  const std::string& record_directory() const { return options_.record_directory; }

  // The process ends: prints statistics, writes the rest of the trace, and leaves word that all was well.
  void Close();

 private:
  ObserverOptions options_;
  int process_ = 0;
  std::vector<int> processes_;  // of the job on this host
  std::unique_ptr<FlightRecorder> recorder_;
  std::unique_ptr<Statistics> statistics_;
  std::unique_ptr<Trace> trace_;
  std::mutex mutex_;
  std::deque<NotedSite> sites_;  // its elements stay where they are; guarded by mutex_
};

}  // namespace xla_shmem::observe

#endif  // XLA_SHMEM_RUNTIME_OBSERVE_OBSERVER_H_
