#ifndef XLA_SHMEM_HLO_PROTO_COLLECTIVE_READER_H_
#define XLA_SHMEM_HLO_PROTO_COLLECTIVE_READER_H_

#include <vector>

#include "xla_patch/assigner/device_assignment.h"
#include "xla_patch/hlo/proto/collective.h"
#include "xla_patch/hlo/proto/module_reader.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::hlo {

// All collectives that the entry leads to, outside of fusions, in module order; a start/done pair, and an async-start
// with what it wraps, count once. `assignment` gives the ids their meaning. An error if the bytes of a collective
// are corrupt. A collective that is well-formed but not supported is no error: spec.unsupported_participants says so of
// groups and pairs, `unsupported_form` of all else.
Result<std::vector<Collective>> FindCollectives(const Module& module, const DeviceAssignment& assignment);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_COLLECTIVE_READER_H_
