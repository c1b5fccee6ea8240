// The flight recorder: the last collectives of every PE of this process, in a file that is mapped into memory, so that
// `xla-shmem postmortem` can read it while the job hangs and after it has crashed.
//
// Two files a process, in the directory of the job:
//   <process>.ring   RingHeader, then for each local PE a PeHeader and its last kEntries collectives
//   <process>.sites  a line of JSON for each collective of a loaded program: number, operation, op, name, pairs or
//                    groups
// python/xla_shmem/runtime/flight_records.py reads both.
#ifndef XLA_SHMEM_RUNTIME_OBSERVE_FLIGHT_RECORDER_H_
#define XLA_SHMEM_RUNTIME_OBSERVE_FLIGHT_RECORDER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "xla_patch/types/status.h"

namespace xla_shmem::observe {

// kEnqueued: the host has enqueued it, and the GPU has not come to it.
enum class State : uint32_t { kEmpty = 0, kStarted = 1, kWaiting = 2, kDone = 3, kFailed = 4, kEnqueued = 5 };

// One execution of a collective on one PE. Times are CLOCK_MONOTONIC, the same clock in all processes of a host.
struct alignas(64) Entry {
  std::atomic<uint64_t> sequence;  // of this PE's collectives, from 1; written last
  uint64_t execution;              // run number in the high half, number within the run in the low half
  uint32_t site;
  std::atomic<uint32_t> state;
  uint64_t bytes;  // of the operands
  uint64_t start_ns;
  uint64_t end_ns;
};
static_assert(sizeof(Entry) == 64);

struct PeHeader {
  uint32_t pe;
  uint32_t entries;
  std::atomic<uint64_t> next;  // sequence number of the last entry begun
  char unused[48];
};
static_assert(sizeof(PeHeader) == 64);

enum class Outcome : uint32_t { kRunning = 0, kExited = 1, kFailed = 2 };

struct RingHeader {
  char magic[8];  // "XSHMFR1\n"
  uint32_t pid;
  uint32_t process;
  uint32_t processes;      // of the job on this host
  uint32_t n_pes;          // of this process
  int64_t wall_offset_ns;  // CLOCK_REALTIME minus CLOCK_MONOTONIC
  std::atomic<uint32_t> outcome;
  char unused[220];
  char failure[3840];  // NUL-terminated; why the job failed, in this process
};
static_assert(sizeof(RingHeader) == 4096);

// A collective of a loaded program.
struct Site {
  uint64_t operation = 0;
  std::string op;    // "all-reduce"
  std::string name;  // "module/instruction"
  bool is_pairs = false;
  std::vector<std::vector<int>> groups;  // PEs; for a permute: source and target of each pair
};

class FlightRecorder {
 public:
  static constexpr uint32_t kEntries = 1024;

  // Creates the files of `process` and its `pes` in `directory`, which exists. `processes`: all processes of the job on
  // this host, which write there too.
  static Result<std::unique_ptr<FlightRecorder>> Create(const std::string& directory, int process,
                                                        std::vector<int> processes, const std::vector<int>& pes);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // Records the site and returns its number, to which entries refer.
  uint32_t AddSite(const Site& site);

  // Returns null if `pe` is not local. Collective number kEntries after this one overwrites the entry.
  Entry* Begin(int pe, uint32_t site, uint64_t execution, uint64_t bytes, uint64_t start_ns, uint64_t* sequence,
               State state = State::kStarted);
  // No effect once the entry belongs to a later collective.
  static void Set(Entry* entry, uint64_t sequence, State state, uint64_t end_ns);

  void Fail(const std::string& why);

  // Called when the process ends. If all processes of the job on this host have ended well, the last removes the files.
  void Close();

 private:
  FlightRecorder(std::string directory, std::vector<int> processes, int sites_file, void* mapping, size_t bytes);
  PeHeader* HeaderOf(size_t index) const;

  const std::string directory_;
  const std::vector<int> processes_;
  const int sites_file_;
  RingHeader* const header_;
  const size_t bytes_;
  std::mutex mutex_;
  uint32_t sites_ = 0;  // guarded by mutex_
};

uint64_t MonotonicNanoseconds();

}  // namespace xla_shmem::observe

#endif  // XLA_SHMEM_RUNTIME_OBSERVE_FLIGHT_RECORDER_H_
