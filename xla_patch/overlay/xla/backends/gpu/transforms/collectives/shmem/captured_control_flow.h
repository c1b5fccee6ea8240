#ifndef XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_CAPTURED_CONTROL_FLOW_H_
#define XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_CAPTURED_CONTROL_FLOW_H_

#include "xla/hlo/ir/hlo_instruction.h"
#include "xla_patch/assigner/collective_spec.h"

namespace xla::gpu {

// Why `collective` cannot run on SHMEM inside the conditionals and loops around it. XLA may capture these into CUDA
// graphs, as conditional nodes; the body of a conditional node cannot hold the stream memory operations that signal
// between PEs (CUDA programming guide, "Conditional Node Body Graph Requirements"). None if the flags of the module
// keep XLA from capturing them together with collectives.
xla_shmem::Unsupported UnsupportedByControlFlow(const HloInstruction& collective);

}  // namespace xla::gpu

#endif  // XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_CAPTURED_CONTROL_FLOW_H_
