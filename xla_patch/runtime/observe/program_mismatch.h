// Detects processes that cannot take part in a collective because they run another program.
#ifndef XLA_SHMEM_RUNTIME_OBSERVE_PROGRAM_MISMATCH_H_
#define XLA_SHMEM_RUNTIME_OBSERVE_PROGRAM_MISMATCH_H_

#include <string>
#include <vector>

#include "xla_patch/runtime/observe/flight_recorder.h"

namespace xla_shmem::observe {

enum class MismatchScope {
  kAllPrograms,
  kProgramsOfOneName,  // programs whose modules have the name of this one's
};

// Searches the flight records of the job for a member of the group of `pe` that is in a collective which this process
// has not loaded and that waits for this process, while its process has not loaded this collective. Then neither can
// ever come to the other. Returns a sentence that names the first, or "". A member that has not begun a collective may
// still come, so it is not named.
std::string DescribeProgramMismatch(const std::string& directory, const std::vector<int>& processes, int own_process,
                                    int pe, const Site& site, MismatchScope scope = MismatchScope::kAllPrograms);

}  // namespace xla_shmem::observe

#endif  // XLA_SHMEM_RUNTIME_OBSERVE_PROGRAM_MISMATCH_H_
