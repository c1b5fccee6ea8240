#include "xla/backends/gpu/shmem/shmem_thunk_emission.h"

#include <memory>
#include <utility>

#include "absl/log/log.h"
#include "absl/status/statusor.h"
#include "xla/backends/gpu/runtime/all_reduce_thunk.h"
#include "xla/backends/gpu/runtime/collective_permute_thunk.h"
#include "xla/backends/gpu/runtime/thunk.h"
#include "xla/backends/gpu/shmem/shmem_all_reduce_thunk.h"
#include "xla/backends/gpu/shmem/shmem_collective_permute_thunk.h"
#include "xla/hlo/ir/hlo_computation.h"
#include "xla/hlo/ir/hlo_instruction.h"
#include "xla/service/gpu/backend_configs.pb.h"

namespace xla::gpu {
namespace {

bool IsOnNvshmem(const HloInstruction& instruction) {
  const absl::StatusOr<GpuBackendConfig> config = instruction.backend_config<GpuBackendConfig>();
  return config.ok() && config->collective_backend_config().backend() == CollectiveBackendConfig::NVSHMEM;
}

// XLA asks every thunk of a group for its NCCL communicator; ours have none.
bool IsInGroup(const HloInstruction& instruction) {
  const HloComputation* computation = instruction.parent();
  return computation->IsAsyncComputation() && !computation->CanExpandIntoSingleInstruction();
}

}  // namespace

std::unique_ptr<Thunk> OnItsBackend(const HloInstruction& instruction, std::unique_ptr<Thunk> thunk) {
  if (!IsOnNvshmem(instruction)) return thunk;
  if (IsInGroup(instruction)) {
    LOG(WARNING) << instruction.name() << " asks for NVSHMEM in a group of collectives; it runs on NCCL";
    return thunk;
  }
  if (const auto* permute = dynamic_cast<const CollectivePermuteThunk*>(thunk.get())) {
    return std::make_unique<ShmemCollectivePermuteThunk>(*permute);
  }
  const auto* all_reduce = dynamic_cast<const AllReduceThunk*>(thunk.get());
  if (all_reduce != nullptr && ShmemAllReduceThunk::Carries(*all_reduce)) {
    return std::make_unique<ShmemAllReduceThunk>(*all_reduce);
  }
  // Our assigner does not choose NVSHMEM for this collective, so the user did.
  LOG(WARNING) << instruction.name() << " asks for NVSHMEM, which does not support it; it runs on NCCL";
  return thunk;
}

ThunkSequence OnItsBackends::operator()(ThunkSequence thunks) const {
  for (std::unique_ptr<Thunk>& thunk : thunks) thunk = OnItsBackend(*instruction_, std::move(thunk));
  return thunks;
}

}  // namespace xla::gpu
