#ifndef XLA_SHMEM_HLO_REWRITE_SEVERAL_GPUS_H_
#define XLA_SHMEM_HLO_REWRITE_SEVERAL_GPUS_H_

#include <cstdint>
#include <string>

#include "xla_patch/assigner/device_assignment.h"
#include "xla_patch/assigner/topology.h"
#include "xla_patch/hlo/proto/module_reader.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::hlo {

// Fits a program of XLA:GPU whose devices are several of one process to that. A call comes before all else:
//
//   () = xla_shmem.meet()      groups: the program's PEs, by process
//
// There the host threads of a process's GPUs wait for one another (docs/protocol.md). XLA has loaded the program's code
// by then, on the GPU of the thread, and made its CUDA graphs, but for those in loops. The call stands in the entry
// computation, so every GPU of the program comes to it, also one that takes part in none of the collectives.
//
// Calls in loops, but for those of pairs, get a target that graphs may not hold (kInLoopSuffix).
//
// `structure_hash`: of the module as XLA has written it. Returns the new module, empty if nothing is to be done or if
// it was.
Result<std::string> FitSeveralGpus(const Module& module, const DeviceAssignment& assignment, const Topology& topology,
                                   uint64_t structure_hash);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_REWRITE_SEVERAL_GPUS_H_
