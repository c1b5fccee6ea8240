#include "xla/backends/gpu/shmem/shmem_thunk_substitution.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/log/log.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "xla/backends/gpu/runtime/all_reduce_thunk.h"
#include "xla/backends/gpu/runtime/collective_permute_thunk.h"
#include "xla/backends/gpu/runtime/collective_thunk.h"
#include "xla/backends/gpu/shmem/shmem_all_reduce_thunk.h"
#include "xla/backends/gpu/shmem/shmem_collective_permute_thunk.h"
#include "xla/backends/gpu/shmem/shmem_runtime.h"
#include "xla/backends/gpu/transforms/collectives/shmem/collective_backend_config.h"
#include "xla/hlo/ir/hlo_computation.h"
#include "xla/hlo/ir/hlo_instruction.h"
#include "xla/hlo/ir/hlo_opcode.h"

namespace xla::gpu {
namespace {

// Instructions with backend NVSHMEM, by the names that their thunks may have.
using ShmemCollectives = absl::flat_hash_map<absl::string_view, const HloInstruction*>;

// XLA asks every thunk of a group for its NCCL communicator; ours have none.
bool IsInGroup(const HloInstruction& instruction) {
  const HloComputation* computation = instruction.parent();
  return computation->IsAsyncComputation() && !computation->CanExpandIntoSingleInstruction();
}

ShmemCollectives FindShmemCollectives(const HloModule& module) {
  ShmemCollectives found;
  for (const HloComputation* computation : module.computations()) {
    for (const HloInstruction* instruction : computation->instructions()) {
      if (!IsOnNvshmem(*instruction)) continue;
      found[instruction->name()] = instruction;
      const std::optional<HloInstruction*> start = computation->GetUniqueCaller(HloOpcode::kAsyncStart);
      if (start.has_value() && !IsInGroup(*instruction)) found[(*start)->name()] = instruction;
    }
  }
  return found;
}

std::unique_ptr<Thunk> OnNvshmem(const HloInstruction& instruction, std::unique_ptr<Thunk> thunk) {
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

}  // namespace

absl::Status UseShmemThunks(const HloModule* module, ThunkSequence* thunks) {
  if (module == nullptr) return absl::OkStatus();
  const ShmemCollectives collectives = FindShmemCollectives(*module);
  if (collectives.empty()) return absl::OkStatus();
  if (const std::string failure = ShmemRuntime::Get().failure(); !failure.empty()) {
    LOG(WARNING) << module->name() << " was compiled for NVSHMEM and runs on NCCL: " << failure;
    return absl::OkStatus();
  }
  return thunks->TransformNested([&](std::unique_ptr<Thunk> thunk) -> absl::StatusOr<std::unique_ptr<Thunk>> {
    const auto found = collectives.find(thunk->thunk_info().profile_annotation);
    if (found == collectives.end() || !thunk->IsCollective()) return thunk;
    return OnNvshmem(*found->second, std::move(thunk));
  });
}

}  // namespace xla::gpu
