#include "xla/backends/gpu/transforms/collectives/shmem/collective_backend_config.h"

#include "absl/status/statusor.h"
#include "xla/backends/gpu/transforms/collectives/shmem/status_macros.h"
#include "xla/hlo/ir/hlo_casting_utils.h"
#include "xla/hlo/ir/hlo_instruction.h"
#include "xla/hlo/ir/hlo_instructions.h"
#include "xla/service/gpu/backend_configs.pb.h"

namespace xla::gpu {
namespace {

// XLA of 2026-06 and later has reserved the number, and has no name for it.
constexpr auto kNvshmem = static_cast<CollectiveBackendConfig::CollectiveBackend>(1);

}  // namespace

absl::StatusOr<bool> SetCollectiveBackend(xla_shmem::Backend backend, HloInstruction* instruction) {
  SHMEM_ASSIGN_OR_RETURN(GpuBackendConfig config, instruction->backend_config<GpuBackendConfig>());
  CollectiveBackendConfig& collective = *config.mutable_collective_backend_config();
  const bool was_nvshmem = collective.backend() == kNvshmem;
  if (backend == xla_shmem::Backend::kNvshmem) {
    if (was_nvshmem && collective.kernel_strategy() == CollectiveBackendConfig().kernel_strategy()) return false;
    collective.set_backend(kNvshmem);
    collective.clear_kernel_strategy();
  } else {
    if (!was_nvshmem) return false;
    collective.clear_backend();
  }
  SHMEM_RETURN_IF_ERROR(instruction->set_backend_config(config));
  return true;
}

bool IsOnNvshmem(const HloInstruction& instruction) {
  if (DynCast<HloChannelInstruction>(&instruction) == nullptr) return false;
  const absl::StatusOr<GpuBackendConfig> config = instruction.backend_config<GpuBackendConfig>();
  return config.ok() && config->collective_backend_config().backend() == kNvshmem;
}

}  // namespace xla::gpu
