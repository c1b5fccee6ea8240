#ifndef XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_HLO_COLLECTIVE_H_
#define XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_HLO_COLLECTIVE_H_

#include <optional>

#include "absl/status/statusor.h"
#include "xla/hlo/ir/hlo_instruction.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/assigner/device_assignment.h"
#include "xla_patch/assigner/topology.h"

namespace xla::gpu {

// One collective of an HloModule, in the types of xla_patch/assigner. The reader in xla_patch/hlo does the same for a
// serialised module; xla_patch/assigner interprets ids, reductions and buffers for both.
struct HloCollective {
  HloInstruction* op = nullptr;      // has the groups or the pairs
  HloInstruction* issued = nullptr;  // the instruction that a user sees: `op`, or the async-start around it
  HloInstruction* done = nullptr;    // its done; null for a synchronous one
  // Its async computation holds more than `op`: a group, which XLA runs as one call of NCCL's. `issued` is `op` then.
  bool is_in_group = false;
  xla_shmem::CollectiveSpec spec;  // everything but the module's placement
  // Why SHMEM cannot carry its form, whatever the transport.
  xla_shmem::Unsupported unsupported_form;
};

// Which device runs which replica of which partition. A module without a device assignment is read as if logical id i
// were the i-th device of the topology. InvalidArgument if the assignment contradicts itself.
absl::StatusOr<xla_shmem::DeviceAssignment> ReadDeviceAssignment(const HloModule& module,
                                                                 const xla_shmem::Topology& topology);

// None for an instruction that is no collective, and for a done. Invalid groups and pairs are no error:
// they are reported in spec.unsupported_participants.
std::optional<HloCollective> ReadCollective(HloInstruction* instruction, const xla_shmem::DeviceAssignment& assignment);

}  // namespace xla::gpu

#endif  // XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_HLO_COLLECTIVE_H_
