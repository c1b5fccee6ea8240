#include "xla/backends/gpu/transforms/collectives/shmem/captured_control_flow.h"

#include <optional>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "xla/hlo/ir/hlo_computation.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/hlo/ir/hlo_opcode.h"
#include "xla/service/hlo_module_config.h"
#include "xla/xla.pb.h"

namespace xla::gpu {
namespace {

std::optional<DebugOptions::CommandBufferCmdType> CommandOf(HloOpcode caller) {
  switch (caller) {
    case HloOpcode::kConditional:
      return DebugOptions::CONDITIONAL;
    case HloOpcode::kWhile:
      return DebugOptions::WHILE;
    default:
      return std::nullopt;
  }
}

}  // namespace

xla_shmem::Unsupported UnsupportedByControlFlow(const HloInstruction& collective) {
  const auto& captured = collective.GetModule()->config().debug_options().xla_gpu_enable_command_buffer();
  if (!absl::c_linear_search(captured, DebugOptions::COLLECTIVES)) return std::nullopt;
  absl::flat_hash_set<const HloComputation*> seen;
  std::vector<const HloComputation*> pending = {collective.parent()};
  while (!pending.empty()) {
    const HloComputation* computation = pending.back();
    pending.pop_back();
    if (!seen.insert(computation).second) continue;
    for (const HloInstruction* caller : computation->caller_instructions()) {
      const std::optional<DebugOptions::CommandBufferCmdType> command = CommandOf(caller->opcode());
      if (command.has_value() && absl::c_linear_search(captured, *command)) {
        return absl::StrCat("it runs below ", caller->name(), ", which XLA may capture into a CUDA graph: ",
                            "--xla_gpu_enable_command_buffer lists COLLECTIVES and ",
                            DebugOptions::CommandBufferCmdType_Name(*command));
      }
      pending.push_back(caller->parent());
    }
  }
  return std::nullopt;
}

}  // namespace xla::gpu
