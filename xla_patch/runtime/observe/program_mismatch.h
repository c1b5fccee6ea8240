// Finds processes whose copy of a program differs (docs/design.md, "Matching messages"): those with which this process
// can be paired, and those with which it can never meet.
#ifndef XLA_SHMEM_RUNTIME_OBSERVE_PROGRAM_MISMATCH_H_
#define XLA_SHMEM_RUNTIME_OBSERVE_PROGRAM_MISMATCH_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "xla_patch/runtime/observe/flight_recorder.h"
#include "xla_patch/types/peer_operation.h"

namespace xla_shmem::observe {

enum class MismatchScope {
  kAllPrograms,
  kProgramsOfOneName,  // programs whose modules have the name of this one's
};

// A program of this process, and its copy in another process, by their ids.
struct PairedProgram {
  int process = -1;
  uint64_t program = 0;
  uint64_t other = 0;
  std::vector<PeerOperation> operations;
};

// By process and program of this one: the program there.
using KnownPairs = std::map<std::pair<int, uint64_t>, uint64_t>;

struct FoundPrograms {
  std::string fault;                 // why `pe` can never get what it waits for; "" if it may
  std::vector<PairedProgram> pairs;  // that are not known yet
};

// `pe` waits in `site`. Searches the flight records of the job.
//
// A fault is a member of the group of `pe` that is in a collective which this process has not loaded and that waits for
// this process, while its process has not loaded this collective. Then neither can ever come to the other. A member
// that has not begun a collective may still come, so it is not named.
//
// A pair is no fault: a process that has not loaded the program of `site` has begun a program with the form of one that
// this process has loaded. Programs of one form are paired in the order in which they were loaded. So in both processes
// one thread must have loaded all programs, and none of this form may be loaded in both.
FoundPrograms FindOtherPrograms(const std::string& directory, const std::vector<int>& processes, int own_process,
                                int pe, const Site& site, MismatchScope scope, KnownPairs known);

// Searches for a process that has loaded a program of this one with which another program of that process is paired.
// Returns a sentence, or "".
std::string FindWrongPair(const std::string& directory, const KnownPairs& known);
// The sentence for such a process, and for one that is paired with a program that this process loads later.
std::string DescribeWrongPair(const std::string& module, int process);

// Searches for a member of the group of `pe` that has taken another branch of a conditional than the one with `site`,
// and is there in a collective that waits for `pe`, while this execution of `site` waits for it. Then neither leaves
// its branch: runs of one program come one after the other, and a run is in one branch at a time. Returns a sentence
// that names the first such member, or "".
std::string DescribeOtherBranch(const std::string& directory, const std::vector<int>& processes, int own_process,
                                int pe, const Site& site, uint64_t execution);

}  // namespace xla_shmem::observe

#endif  // XLA_SHMEM_RUNTIME_OBSERVE_PROGRAM_MISMATCH_H_
