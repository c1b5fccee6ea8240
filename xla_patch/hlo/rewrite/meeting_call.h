#ifndef XLA_SHMEM_HLO_REWRITE_MEETING_CALL_H_
#define XLA_SHMEM_HLO_REWRITE_MEETING_CALL_H_

#include <cstdint>
#include <string>

#include "xla_patch/assigner/device_assignment.h"
#include "xla_patch/assigner/topology.h"
#include "xla_patch/hlo/proto/module_reader.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::hlo {

// Puts a call before all else of a program of XLA:GPU whose devices are several of one process:
//
//   () = xla_shmem.meet()      groups: the program's PEs, by process
//
// There the host threads of a process's GPUs wait for one another (docs/protocol.md). XLA has loaded the program's code
// by then, on the GPU of the thread. The call stands in the entry computation, so every GPU of the program comes to it,
// also one that takes part in none of the collectives.
//
// `structure_hash`: of the module as XLA has written it. Returns the new module, empty if it needs no call or has it.
Result<std::string> AddMeetingCall(const Module& module, const DeviceAssignment& assignment, const Topology& topology,
                                   uint64_t structure_hash);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_REWRITE_MEETING_CALL_H_
