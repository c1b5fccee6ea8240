// NVSHMEM teams for the replica groups that meshes make. All are created at start, because creation is collective over
// all PEs and a program may run on a part of the devices.
#ifndef XLA_SHMEM_NVSHMEM_GPU_TEAMS_H_
#define XLA_SHMEM_NVSHMEM_GPU_TEAMS_H_

#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "xla_patch/nvshmem/api.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::gpu {

// Symmetric memory for reductions on teams: operands and results of 16 MiB, the largest all-reduce of profile
// `upstream`.
inline constexpr size_t kTeamStagingBytes = 32 << 20;

class Teams {
 public:
  // Creates a team for every group of one axis, or of neighbouring axes, of any mesh over all PEs in order: size k,
  // stride s, where k * s divides the number of PEs. Collective. Error if NVSHMEM refuses a team.
  Status Create(const NvshmemApi& api);

  // The team of exactly these PEs, kTeamInvalid if there is none. The order of the group does not matter.
  TeamHandle Find(std::vector<int> group) const;

  // How many of these teams a PE belongs to, besides the world. NVSHMEM_MAX_TEAMS must hold them.
  static int CountOfPe(int n_pes);

 private:
  struct Progression {
    int start, stride, size;
    bool operator<(const Progression& other) const {
      return std::tie(start, stride, size) < std::tie(other.start, other.stride, other.size);
    }
  };
  std::map<Progression, TeamHandle> teams_;
};

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_TEAMS_H_
