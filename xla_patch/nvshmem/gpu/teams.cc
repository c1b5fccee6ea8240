#include "xla_patch/nvshmem/gpu/teams.h"

#include <algorithm>

namespace xla_shmem::gpu {
namespace {

// Calls `visit(stride, size)` for the forms of groups that have teams, except the world.
template <typename Visit>
void ForEachForm(int n_pes, Visit visit) {
  for (int size = 2; size < n_pes; ++size) {
    for (int stride = 1; size * stride <= n_pes; ++stride) {
      if (n_pes % (size * stride) == 0) visit(stride, size);
    }
  }
}

}  // namespace

Status Teams::Create(const NvshmemApi& api) {
  Status refused;
  const int n_pes = api.n_pes();
  if (n_pes > 1) teams_[{0, 1, n_pes}] = kTeamWorld;
  ForEachForm(n_pes, [&](int stride, int size) {
    for (int block = 0; block < n_pes; block += stride * size) {
      for (int start = block; start < block + stride && refused.ok(); ++start) {
        TeamHandle team = kTeamInvalid;
        const int status = api.team_split_strided(kTeamWorld, start, stride, size, nullptr, 0, &team);
        if (status != 0) {
          refused =
              Status::Error("NVSHMEM refuses a team of " + std::to_string(size) + " PEs from PE " +
                            std::to_string(start) + " by steps of " + std::to_string(stride) + " (status " +
                            std::to_string(status) + "): raise NVSHMEM_MAX_TEAMS, or set XLA_SHMEM_GPU_REDUCE=rings");
        }
        if (team != kTeamInvalid) teams_[{start, stride, size}] = team;
      }
    }
  });
  return refused;
}

TeamHandle Teams::Find(std::vector<int> group) const {
  if (group.size() < 2) return kTeamInvalid;
  std::sort(group.begin(), group.end());
  const int stride = group[1] - group[0];
  for (size_t i = 1; i < group.size(); ++i) {
    if (group[i] - group[i - 1] != stride) return kTeamInvalid;
  }
  const auto found = teams_.find({group[0], stride, static_cast<int>(group.size())});
  return found == teams_.end() ? kTeamInvalid : found->second;
}

int Teams::CountOfPe(int n_pes) {
  int forms = 0;
  ForEachForm(n_pes, [&](int, int) { ++forms; });
  return forms;
}

}  // namespace xla_shmem::gpu
