// Records the collectives that a process runs. Each execution is a Span from its begin to its end. By default the ring
// of the flight recorder has the last ones. On request the totals of each collective and the lines of a trace are made
// from each execution when it ends. So they hold all executions, and not only those that are still in the ring.
//
// Begin and End are on the fast path of small collectives. With the ring alone they cost two clock reads and one cache
// line.
#ifndef XLA_SHMEM_RUNTIME_OBSERVE_OBSERVER_H_
#define XLA_SHMEM_RUNTIME_OBSERVE_OBSERVER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "xla_patch/runtime/observe/flight_recorder.h"
#include "xla_patch/runtime/observe/program_mismatch.h"
#include "xla_patch/runtime/observe/totals.h"
#include "xla_patch/runtime/observe/trace_file.h"

namespace xla_shmem::observe {

struct ObserverOptions {
  std::string record_directory;  // "": no flight recorder
  bool statistics = false;
  std::string trace_file;  // "": none
  bool on_gpu = false;     // collectives are enqueued, and run later
};

// A collective of a loaded program.
struct RecordedSite {
  Site site;
  uint32_t number = 0;  // in the flight recorder
  mutable std::mutex mutex;
  mutable Totals totals;  // of all executions so far, with statistics; guarded by mutex
};

class Observer {
 public:
  // One execution in progress.
  struct Span {
    const RecordedSite* site = nullptr;
    int pe = -1;
    Entry* entry = nullptr;
    uint64_t sequence = 0;
    uint64_t execution = 0;
    uint64_t start_ns = 0;
    uint64_t bytes = 0;
  };

  // Called once, before any other method. `processes`: of the job on this host. Returns one sentence for each part that
  // does not work.
  std::vector<std::string> Start(const ObserverOptions& options, int process, const std::vector<int>& processes,
                                 const std::vector<int>& pes);

  // The result is valid as long as the observer, and the same for a program that is loaded again.
  const RecordedSite* AddSite(Site site);
  // The same, null if it has not been added.
  const RecordedSite* FindSite(uint64_t operation, const std::string& name);

  // Takes operations that other processes call by other ids, on an engine thread.
  using Pair = std::function<void(const std::vector<PeerOperation>& operations)>;
  // Without it, programs that differ are faults. To be called before any program runs.
  void SetPair(Pair pair) { pair_ = std::move(pair); }
  // Called after AddSite: why the program of the site must not run, because copies of programs were paired wrongly; ""
  // if it may.
  std::string FindWrongPairOf(const Site& site);

  // `bytes`: of the operands.
  Span Begin(int pe, const RecordedSite* site, uint64_t execution, uint64_t bytes);
  // The execution did not finish in the handler.
  void MarkWaiting(const Span& span);
  // `copied_ns`: the time spent copying and reducing data; none if it is not known.
  void End(const Span& span, std::optional<uint64_t> copied_ns, bool is_inline);
  // Why the execution can never finish: another process is in a program that differs from this one's, or in another
  // branch. "" if it may. Pairs programs that differ in nothing that matters.
  // Unless `is_late`, only programs of one name are looked at: with several threads, processes may be in programs of
  // different names for as long as they compile.
  std::string FindMismatch(const Span& span, bool is_late);
  // Returns `why`, extended by what the records of the other processes tell.
  std::string Fail(const Span& span, const std::string& why);

  // On GPUs Begin records that the execution was enqueued, and MarkWaiting that the GPU has come to it.
  // `begun_ns`: 0 if not known. Executions of one `track` do not overlap.
  void EndOnGpu(const Span& span, int track, uint64_t begun_ns, uint64_t ended_ns);
  void FailOnGpu(const Span& span);
  // The job of this process has failed. Returns `why`, extended by where the records are.
  std::string FailJob(const std::string& why);

  // Whether Begin and what follows have an effect.
  bool records() const { return recorder_ != nullptr || measures_copies(); }
  // Whether the caller has to measure `copied_ns`, or the times on the GPU.
  bool measures_copies() const { return options_.statistics || trace_ != nullptr; }

  // Called when the program ends: prints the totals, once, and writes the trace so far.
  // `footer`: printed below them.
  void Report(const std::string& footer = "");
  // The program has come to its end.
  void MarkAtEnd();
  // Called when the process exits: reports, and records the exit.
  void Close(int exit_code);

 private:
  void Add(const RecordedSite& site, const Finished& execution);
  KnownPairs ReadPairs();
  // Returns why the programs cannot be paired.
  std::string AddPair(const PairedProgram& pair);
  TotalsByCollective ReadTotals();
  std::string PlaceOfRecords() const;

  ObserverOptions options_;
  int process_ = 0;
  std::vector<int> processes_;  // of the job on this host
  std::unique_ptr<FlightRecorder> recorder_;
  std::unique_ptr<TraceFile> trace_;
  std::mutex mutex_;
  std::atomic<bool> has_printed_{false};
  // By operation id and name. A map, because its elements never move; guarded by mutex_.
  std::map<std::pair<uint64_t, std::string>, RecordedSite> sites_;
  KnownPairs pairs_;  // guarded by mutex_
  Pair pair_;
};

}  // namespace xla_shmem::observe

#endif  // XLA_SHMEM_RUNTIME_OBSERVE_OBSERVER_H_
