#include "xla/backends/gpu/transforms/collectives/shmem/mosaic_nvshmem.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "xla/hlo/ir/hlo_computation.h"
#include "xla/hlo/ir/hlo_instruction.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/hlo/ir/hlo_opcode.h"

namespace xla::gpu {
namespace {

// As XLA's memory space assignment recognises them.
bool CallsNvshmem(const HloInstruction& instruction) {
  return instruction.opcode() == HloOpcode::kCustomCall &&
         (instruction.custom_call_target() == "mosaic_gpu" || instruction.custom_call_target() == "mosaic_gpu_v2") &&
         absl::StrContains(instruction.raw_backend_config_string(), "nvshmem");
}

}  // namespace

absl::Status RefuseMosaicWithNvshmem(const HloModule& module) {
  for (const HloComputation* computation : module.computations()) {
    for (const HloInstruction* instruction : computation->instructions()) {
      if (CallsNvshmem(*instruction)) {
        return absl::UnimplementedError(
            absl::StrCat(instruction->name(), " (", instruction->custom_call_target(),
                         ") calls NVSHMEM from a Mosaic kernel. With --xla_gpu_experimental_enable_nvshmem this jaxlib "
                         "starts NVSHMEM for collectives only; run the program with a stock jaxlib"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace xla::gpu
