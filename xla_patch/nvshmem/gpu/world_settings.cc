#include "xla_patch/nvshmem/gpu/world_settings.h"

#include <algorithm>

namespace xla_shmem::gpu {
namespace {

constexpr size_t kMib = size_t{1} << 20;
constexpr size_t kOwnBytes = 64 * kMib;  // for NVSHMEM's teams, workspaces and alignment
// NVSHMEM allocates its memory for all teams first, some 0.6 MiB for each team that may exist.
constexpr size_t kTeamBytes = kMib;
constexpr size_t kHeapStepBytes = 512 * kMib;  // of the heap's growth, unless NVSHMEM_CUMEM_GRANULARITY is set
constexpr int kOwnTeams = 16;                  // NVSHMEM's own teams, and some to spare
// With NVLink SHARP, NVSHMEM 3.5 and later make 15 duplicates of three of its own.
constexpr int kCopiesOfTeam = 16;
constexpr int kOwnTeamsWithCopies = 3;

}  // namespace

std::map<std::string, std::string> WorldSettings(size_t symmetric_bytes, int hosts, bool multimem) {
  int teams = kOwnTeams;
  if (multimem) teams += kCopiesOfTeam * kOwnTeamsWithCopies;
  std::map<std::string, std::string> settings = {
      {"NVSHMEM_SYMMETRIC_SIZE", std::to_string(symmetric_bytes + kOwnBytes + teams * kTeamBytes)},
      {"NVSHMEM_MAX_TEAMS", std::to_string(teams)},
      // NVSHMEM's host reductions would run NCCL, which may be present in one process and missing in another.
      {"NVSHMEM_DISABLE_NCCL", "1"},
      // A world is one NVLink domain. Only remote transports need the proxy thread, which polls all the time.
      {"NVSHMEM_REMOTE_TRANSPORT", "none"},
      {"NVSHMEM_DISABLE_LOCAL_ONLY_PROXY", "1"},
  };
  // Multicast groups need a working fabric manager, and cannot have two PEs on one GPU.
  if (!multimem) settings["NVSHMEM_DISABLE_NVLS"] = "1";
  // On GB200 NVSHMEM would allocate memory that other hosts can map, which the driver refuses without IMEX.
  if (hosts == 1) settings["NVSHMEM_DISABLE_MNNVL"] = "1";
  return settings;
}

size_t HeapBytes(const std::map<std::string, std::string>& settings, bool own_steps) {
  const size_t needed = std::stoull(settings.at("NVSHMEM_SYMMETRIC_SIZE"));
  if (own_steps) return needed;
  return (needed + kHeapStepBytes - 1) / kHeapStepBytes * kHeapStepBytes;
}

std::vector<std::string> VariablesThatMustAgree() {
  std::vector<std::string> names = {
      "NVSHMEM_CUMEM_GRANULARITY",
      "NVSHMEM_CUMEM_HANDLE_TYPE",
      "NVSHMEM_DISABLE_CUDA_VMM",
      "NVSHMEM_DISABLE_P2P",
      "NVSHMEM_ENABLE_ALIGNED_MALLOC",
      "NVSHMEM_G_BUF_SIZE",
      "NVSHMEM_HEAP_KIND",
      "NVSHMEM_MAX_CTAS",
      "NVSHMEM_MAX_MEMORY_PER_GPU",
      "NVSHMEM_REDUCE_ALGO",
      "NVSHMEM_REDUCE_NVLS_THRESHOLD",
      "NVSHMEM_REDUCE_SCRATCH_SIZE",
  };
  for (const auto& setting : WorldSettings(/*symmetric_bytes=*/0, /*hosts=*/1, /*multimem=*/false)) {
    names.push_back(setting.first);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string ChosenByUser(const std::map<std::string, std::string>& variables) {
  std::string chosen;
  for (const std::string& name : VariablesThatMustAgree()) {
    const auto found = variables.find(name);
    if (found != variables.end()) chosen += (chosen.empty() ? "" : " ") + name + "=" + found->second;
  }
  return chosen;
}

}  // namespace xla_shmem::gpu
