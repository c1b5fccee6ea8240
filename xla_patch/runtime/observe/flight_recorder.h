// The flight recorder: the last collectives of every PE of this process, in a file that is mapped into memory, so that
// `xla-shmem postmortem` can read it while the job hangs and after it has crashed.
//
// One file a process, <process>.ring in the directory of the job:
//   RingHeader
//   for each local PE a PeHeader and its last kEntries collectives
//   a SiteRecord for each collective of a loaded program, RingHeader::site_bytes in all
// python/xla_shmem/runtime/flight_records.py and ring_reader.cc read it.
#ifndef XLA_SHMEM_RUNTIME_OBSERVE_FLIGHT_RECORDER_H_
#define XLA_SHMEM_RUNTIME_OBSERVE_FLIGHT_RECORDER_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
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
  char magic[8];  // "XSHMFR5\n"
  uint32_t pid;
  uint32_t process;
  uint32_t processes;                // of the job on this host
  uint32_t n_pes;                    // of this process
  std::atomic<uint64_t> site_bytes;  // of all complete site records
  std::atomic<uint32_t> outcome;
  std::atomic<uint32_t> exit_status;  // 1 + the exit code of the process; 0: it has not exited, or was killed
  std::atomic<uint64_t> at_end_ns;    // when its program came to its end; 0: it has not
  uint64_t pid_start_time;            // as in shm's SegmentHeader
  uint64_t pid_namespace;
  std::atomic<uint32_t> several_threads_load;  // programs with collectives
  char unused[188];
  char failure[3840];  // NUL-terminated; why the job failed, in this process
};
static_assert(sizeof(RingHeader) == 4096 && offsetof(RingHeader, failure) == 256);

namespace site_trait {
inline constexpr uint32_t kPairs = 1;
inline constexpr uint32_t kOnDefaultBackend = 2;
}  // namespace site_trait

// Behind it, without gaps: op, name, source, contents, the size of each group and all their members as uint32_t,
// operand_sources and branches as uint64_t.
struct SiteRecord {
  uint64_t operation;
  uint64_t program;
  uint64_t form;
  uint32_t bytes;   // of the record with all that is behind it; a multiple of 8
  uint32_t number;  // to which entries refer
  uint32_t traits;  // bits of site_trait
  uint32_t n_groups;
  uint32_t op_bytes;
  uint32_t name_bytes;
  uint32_t source_bytes;
  uint32_t contents_bytes;
  uint32_t place;
  uint32_t part;
  uint32_t n_operand_sources;
  uint32_t n_branches;
};
static_assert(sizeof(SiteRecord) == 72);

// What hlo/rewrite/call_arguments.h writes of a collective on CPU for ranks whose copies of the program differ.
struct Origin {
  uint64_t program = 0;
  uint64_t form = 0;
  uint32_t place = 0;
  uint32_t part = 0;
  std::string contents;  // "sum f32[8]"
  std::vector<uint64_t> operand_sources;
  std::vector<uint64_t> branches;
};

// A collective of a loaded program.
struct Site {
  uint64_t operation = 0;
  std::string op;    // "all-reduce"
  std::string name;  // "module/instruction"
  bool is_pairs = false;
  std::vector<std::vector<int>> groups;  // PEs; for a permute: source and target of each pair
  // "file:line"; "" if the module does not name it. NOLINTNEXTLINE(readability-redundant-member-init): may be left out
  std::string source = {};
  bool on_default_backend = false;  // XLA's own backend carries it, and only its times are known
  Origin origin = {};               // NOLINT(readability-redundant-member-init): may be left out
};

// An execution that has ended: what totals and trace take from the recorder.
struct Finished {
  int pe = 0;
  uint64_t execution = 0;  // as in Entry
  uint64_t bytes = 0;      // of the operands
  uint64_t start_ns = 0;   // of the call of the handler; on GPUs, where the GPU comes to it
  uint64_t end_ns = 0;     // of the last byte
  // Of the time between them, spent copying and reducing. Not known on GPUs, nor of the default backend.
  std::optional<uint64_t> moved_ns;
  bool is_inline = false;    // finished in the handler and not on a thread of the progress engine
  std::optional<int> track;  // in the trace; executions of one track do not overlap

  uint64_t total_ns() const { return end_ns - std::min(start_ns, end_ns); }
};

class FlightRecorder {
 public:
  static constexpr uint32_t kEntries = 1024;
  static_assert((kEntries & (kEntries - 1)) == 0, "sequence numbers wrap around without a jump in the ring");
  static constexpr size_t kPeBytes = sizeof(PeHeader) + kEntries * sizeof(Entry);

  // The file of a process in the directory of its job.
  static std::string PathOf(const std::string& directory, int process);

  // Creates the file of `process` and its `pes` in `directory`, which exists. `processes`: all processes of the job on
  // this host, which write there too.
  static Result<std::unique_ptr<FlightRecorder>> Create(const std::string& directory, int process,
                                                        std::vector<int> processes, const std::vector<int>& pes);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // The calling thread loads a program with collectives.
  void MarkLoad();
  // Records the site and returns its number, to which entries refer.
  uint32_t AddSite(const Site& site);

  // Returns null if `pe` is not local. Collective number kEntries after this one overwrites the entry.
  Entry* Begin(int pe, uint32_t site, uint64_t execution, uint64_t bytes, uint64_t start_ns, uint64_t* sequence,
               State state = State::kStarted);
  // No effect once the entry belongs to a later collective.
  static void Set(Entry* entry, uint64_t sequence, State state, uint64_t end_ns);

  void Fail(const std::string& why);
  // The program of this process has come to its end. The first call counts.
  void MarkAtEnd();

  // Called when the process exits with `exit_code`. If all processes of the job on this host have ended well, the last
  // removes the files.
  void Close(int exit_code);

 private:
  FlightRecorder(std::string directory, std::vector<int> processes, int file, void* mapping, size_t bytes);
  PeHeader* HeaderOf(size_t index) const;

  const std::string directory_;
  const std::vector<int> processes_;
  const int file_;
  RingHeader* const header_;
  const size_t bytes_;  // that are mapped: all but the sites
  std::mutex mutex_;
  uint32_t sites_ = 0;      // guarded by mutex_
  std::thread::id loader_;  // the first thread that has loaded a program; guarded by mutex_
};

uint64_t MonotonicNanoseconds();

}  // namespace xla_shmem::observe

#endif  // XLA_SHMEM_RUNTIME_OBSERVE_FLIGHT_RECORDER_H_
