// What happens in one run, drawn from its seed.
#ifndef XLA_SHMEM_TESTS_SIMULATOR_PLAN_H_
#define XLA_SHMEM_TESTS_SIMULATOR_PLAN_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/simulator/memory_model.h"
#include "tests/simulator/scheduler.h"
#include "tests/simulator/system_calls.h"
#include "tests/thunks/cpu/random_transfer.h"
#include "xla_patch/shm/cross_memory_reader.h"

namespace xla_shmem::simulator {

struct Fault {
  enum class Kind {
    kKilled,
    kStopped,
    kLate,    // it begins its operations later than the others
    kEnds,    // its program ends before its operations
    kOther,   // it runs another program
    kTraced,  // it is stopped by a debugger
  } kind;
  int process;
  int64_t at_ns;       // after all processes have met; kKilled, kStopped and kTraced
  int64_t for_ns = 0;  // kStopped, kTraced and kLate
  int round = 0;       // before which it is kLate
  int64_t steps = 0;   // kStopped: so many steps after at_ns, as the process looks; at a time it mostly sleeps
};

// How the program of a process that is kOther differs.
enum class OtherProgram {
  kOfOtherName,
  kOfOneName,  // and of another form
  kOfOneForm,  // one collective is another
};

// Longer than any run.
constexpr int64_t kForEver = 1'000'000'000'000'000;

struct Plan {
  uint64_t seed = 1;
  std::vector<int> process_of_pe;
  std::vector<double> speeds;      // by process
  std::vector<int64_t> starts_ns;  // by process: when it begins
  int threads = 1;                 // that start the operations of a PE
  int rounds = 1;
  int operations = 4;  // a round
  testing::Sizes sizes{4096};
  bool crowded = false;  // operations whose messages share mailboxes and records
  size_t arena_bytes = 1 << 20;
  size_t reserve_bytes = 1 << 20;
  bool in_process = false;  // collectives between PEs of a process need no messages
  bool scarce = false;      // slots: operations may starve (docs/protocol.md, "No deadlock")
  size_t llc_share = SIZE_MAX;
  shm::SingleCopy single_copy = shm::SingleCopy::kOff;
  std::chrono::microseconds spin{20};
  std::chrono::nanoseconds deadline{30'000'000'000};
  std::chrono::nanoseconds late_after{60'000'000'000};
  bool answers = false;    // each process has a thread that says what it does
  int64_t within_ns = 0;   // when all operations must have ended, after the last fault; 0: by the deadline
  bool ring_only = false;  // permutes around a ring of all PEs, and all-reduces of eight: for thousands of PEs

  bool copies = false;  // processes call an operation by ids of their own, and learn those of the others when they wait
  bool one_form = false;          // all programs have one form and one name
  uint64_t load_ns = 0;           // at most, from one collective of a program that is loaded to the next
  bool leaves_early = false;      // a process exits as soon as its own operations have ended
  bool programs_at_once = false;  // every round in a thread of its own, which compiles its program first
  bool foreign = false;           // a collective of the default backend comes before the others of a round
  OtherProgram other = OtherProgram::kOfOneName;
  std::string record_directory;  // for the flight records

  bool verbose = false;  // says what begins and ends

  std::vector<Fault> faults;
  int64_t linger_ns = 0;  // for which a process lives on after its last operation

  Scheduler::Options scheduler;
  MemoryModel::Options memory;
  SystemOptions system;

  int n_pes() const { return static_cast<int>(process_of_pe.size()); }
  int processes() const { return static_cast<int>(speeds.size()); }
  bool refuses_threads() const { return system.refused_threads > 0; }
  bool IsKilled(int process) const;
  bool AnyKilled() const;
  bool Has(Fault::Kind kind) const;
  // The process of the first fault of a kind, -1 if there is none.
  int ProcessWith(Fault::Kind kind) const;
  // Whether lines about late processes can be told from those of other reasons.
  bool KnowsLateness() const { return late_after.count() < 10'000'000'000; }
  // The process that is stopped, if nothing else can make a process late; else -1.
  int OnlyStopped() const;
  // Whether processes need flight records.
  bool records() const { return copies || programs_at_once || Has(Fault::Kind::kOther); }
  int64_t LongestStop() const;
  int64_t LastFault() const;
  // Whether every operation must give results.
  bool must_succeed() const { return (faults.empty() || faults_are_harmless) && !refuses_threads() && !scarce; }
  bool faults_are_harmless = false;
};

Plan DrawPlan(uint64_t seed);
// A job of `pes` processes, for which memory is sequentially consistent: clocks of so many threads cost too much.
Plan LargePlan(uint64_t seed, int pes);
std::string Describe(const Plan& plan);

}  // namespace xla_shmem::simulator

#endif  // XLA_SHMEM_TESTS_SIMULATOR_PLAN_H_
