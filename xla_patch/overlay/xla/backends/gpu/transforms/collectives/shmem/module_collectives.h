#ifndef XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_MODULE_COLLECTIVES_H_
#define XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_MODULE_COLLECTIVES_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "xla/hlo/ir/hlo_instruction.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/assigner/topology.h"
#include "xla_patch/hlo/proto/collective.h"
#include "xla_patch/hlo/proto/module_reader.h"

namespace xla::gpu {

// A collective of an HloModule as the plugin's reader (xla_patch/hlo/proto) sees it in the module's bytes.
struct ModuleCollective {
  const xla_shmem::hlo::Module& module;
  const xla_shmem::hlo::Collective& collective;
  HloInstruction* op;      // has the groups or the pairs, and the backend
  HloInstruction* issued;  // the instruction that a user sees: `op`, or the async-start around it
  HloInstruction* done;    // its done; null if it has none, or several
};

// Calls `visit` for each collective that the entry leads to, in module order, until one returns an error. A module
// without a device assignment is read as if logical id i were the i-th device of the topology. InvalidArgument if the
// assignment contradicts itself.
absl::Status VisitCollectives(const HloModule& module, const xla_shmem::Topology& topology,
                              absl::FunctionRef<absl::Status(const ModuleCollective&)> visit);

}  // namespace xla::gpu

#endif  // XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_MODULE_COLLECTIVES_H_
