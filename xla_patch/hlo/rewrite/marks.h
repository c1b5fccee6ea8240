#ifndef XLA_SHMEM_HLO_REWRITE_MARKS_H_
#define XLA_SHMEM_HLO_REWRITE_MARKS_H_

#include <cstdint>
#include <string>

#include "xla_patch/assigner/device_assignment.h"
#include "xla_patch/assigner/topology.h"
#include "xla_patch/hlo/proto/module_reader.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::hlo {

// Puts two calls around each collective of XLA:CPU that stays on the default backend, so that its executions are
// recorded:
//
//   word = xla_shmem.begin(operands of the collective)
//   result = the collective, unchanged
//   () = xla_shmem.end(result, word)
//
// For XLA:CPU only the data counts. So the first runs once the operands are there, which is when the collective may
// start, and the second once the result is there. No value of the program goes through a call: buffers, aliasing and
// donation are those that XLA chose. The word, four bytes, keeps the second call behind the first. The thunks of
// XLA:CPU that become ready together start in the order of the schedule, the first call before the collective.
//
// Left out are collectives that move no bytes, those whose participants are not known, and those in a fusion or in a
// computation without a complete schedule.
//
// `structure_hash` and `form` (CollectiveIdentity): of the module as XLA has written it, for the records. Returns the
// new module, empty if every collective has its calls already, or there is none.
Result<std::string> MarkCollectives(const Module& module, const DeviceAssignment& assignment, const Topology& topology,
                                    uint64_t structure_hash, uint64_t form);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_REWRITE_MARKS_H_
