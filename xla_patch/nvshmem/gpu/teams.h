// Teams for the replica groups that meshes make, all created at start: creation is collective over all PEs, and
// programs may run on some of the devices.
#ifndef XLA_SHMEM_NVSHMEM_GPU_TEAMS_H_
#define XLA_SHMEM_NVSHMEM_GPU_TEAMS_H_

#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "xla_patch/nvshmem/api.h"

namespace xla_shmem::gpu {

// Symmetric memory for reductions on teams: operands and results of 16 MiB, the largest all-reduce of profile `upstream`.
inline constexpr size_t kTeamStagingBytes = 32 << 20;

class Teams {
 public:
  // Creates a team for every group of one axis, or of neighbouring axes, of any mesh over all PEs in order: size k,
  // stride s, where k * s divides the number of PEs. Collective; false with `error` if NVSHMEM refuses one.
  bool Create(const NvshmemApi& api, std::string* error);

  // The team of exactly these PEs, kTeamInvalid if there is none. The order of the group does not matter.
  TeamHandle Find(std::vector<int> group) const;

  // How many a PE of a world is in: what NVSHMEM_MAX_TEAMS must hold besides NVSHMEM's own.
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
