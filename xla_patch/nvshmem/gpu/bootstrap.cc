#include "xla_patch/nvshmem/gpu/bootstrap.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

namespace xla_shmem::gpu {
namespace {

std::map<std::string, int> PesOfHosts(const std::vector<WorldMember>& members) {
  std::map<std::string, int> pes;
  for (const WorldMember& member : members) ++pes[member.host];
  return pes;
}

Status CheckHosts(const std::vector<WorldMember>& members, HeapProvider provider) {
  const std::map<std::string, int> pes = PesOfHosts(members);
  if (pes.size() < 2) return {};
  const auto [fewest, most] =
      std::minmax_element(pes.begin(), pes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (provider == HeapProvider::kNvshmem && fewest->second != most->second) {
    return Status::Error("NVSHMEM needs the same number of PEs on every host; hosts of this NVLink domain have " +
                         std::to_string(fewest->second) + " to " + std::to_string(most->second));
  }
  for (const WorldMember& member : members) {
    if (member.imex_channels > 0) continue;
    return Status::Error("process " + std::to_string(member.process) + " sees no channel in " + kImexChannels +
                         ", without which GPUs of several hosts cannot map each other's memory: start nvidia-imex and "
                         "give the job a channel");
  }
  return {};
}

Status CheckMemory(const std::vector<WorldMember>& members, size_t heap_bytes, HeapProvider provider) {
  std::map<std::pair<std::string, std::string>, size_t> pes_of_gpus;
  for (const WorldMember& member : members) ++pes_of_gpus[{member.host, member.bus_id}];
  for (const WorldMember& member : members) {
    const size_t pes = pes_of_gpus[{member.host, member.bus_id}];
    if (member.free_bytes / pes >= heap_bytes) continue;
    return Status::Error("process " + std::to_string(member.process) + " has " + std::to_string(member.free_bytes) +
                         " bytes of free GPU memory, " +
                         (provider == HeapProvider::kDriver ? "the driver heap" : "NVSHMEM") + " takes " +
                         std::to_string(heap_bytes) + " for each of " + std::to_string(pes) +
                         " processes on that GPU: lower XLA_SHMEM_HEAP_SIZE" +
                         (provider == HeapProvider::kDriver ? "" : ", or set NVSHMEM_CUMEM_GRANULARITY"));
  }
  return {};
}

constexpr size_t kMib = size_t{1} << 20;
constexpr size_t kOwnBytes = 64 * kMib;  // for NVSHMEM's teams, workspaces and alignment
// NVSHMEM allocates its memory for all teams first, some 0.6 MiB for each team that may exist.
constexpr size_t kTeamBytes = kMib;
constexpr size_t kHeapStepBytes = 512 * kMib;  // of the heap's growth, unless NVSHMEM_CUMEM_GRANULARITY is set
constexpr int kOwnTeams = 16;                  // NVSHMEM's own teams, and some to spare
// With NVLink SHARP, NVSHMEM 3.5 and later make 15 duplicates of three of its own.
constexpr int kCopiesOfTeam = 16;
constexpr int kOwnTeamsWithCopies = 3;

// Decide where NVSHMEM puts its memory or how PEs work together.
constexpr std::string_view kOtherVariables[] = {
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

constexpr unsigned kInitWithUniqueId = 1 << 3;  // NVSHMEMX_INIT_WITH_UNIQUEID
constexpr int kStatusInitialized = 2;           // NVSHMEM_STATUS_IS_INITIALIZED; earlier states are lower

// Argument structs of NVSHMEM 3 in their first version, which every 3.x accepts. A version is 1 << 16 plus the size.
constexpr int VersionOf(size_t bytes) { return (1 << 16) + static_cast<int>(bytes); }

struct UniqueId {
  int32_t version = VersionOf(kUniqueIdBytes);
  char content[kUniqueIdBytes - sizeof(int32_t)] = {};
};
static_assert(sizeof(UniqueId) == kUniqueIdBytes);

struct UniqueIdArguments {
  int32_t version = VersionOf(24);
  UniqueId* id = nullptr;
  int32_t rank = -1;
  int32_t ranks = -1;
};
static_assert(sizeof(UniqueIdArguments) == 24);

struct InitArguments {
  int32_t version = VersionOf(128);
  UniqueIdArguments unique_id;
  char padding[96] = {};
};
static_assert(sizeof(InitArguments) == 128);

struct InitAttributes {
  int32_t version = VersionOf(144);
  void* mpi_comm = nullptr;
  InitArguments arguments;
};
static_assert(sizeof(InitAttributes) == 144);

}  // namespace

std::string HostIdentity() {
  std::string boot_id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot_id;
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return boot_id + "/" + name;
}

int CountImexChannels(const std::string& folder) {
  std::error_code error;
  const std::filesystem::directory_iterator files(folder, error);
  return static_cast<int>(std::count_if(begin(files), end(files), [](const std::filesystem::directory_entry& file) {
    return file.path().filename().string().rfind("channel", 0) == 0;
  }));
}

int CountHosts(const std::vector<WorldMember>& members) { return static_cast<int>(PesOfHosts(members).size()); }

Status CheckWorld(const std::vector<WorldMember>& members, size_t heap_bytes, HeapProvider provider) {
  XLA_SHMEM_RETURN_IF_ERROR(CheckHosts(members, provider));
  return CheckMemory(members, heap_bytes, provider);
}

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

std::string ChosenByUser(const std::map<std::string, std::string>& variables) {
  const std::map<std::string, std::string> settings = WorldSettings(/*symmetric_bytes=*/0, /*hosts=*/1, false);
  std::string chosen;
  for (const auto& [name, value] : variables) {
    const bool is_other = std::count(std::begin(kOtherVariables), std::end(kOtherVariables), name) != 0;
    if (!is_other && settings.count(name) == 0) continue;
    chosen.append(chosen.empty() ? "" : " ").append(name).append("=").append(value);
  }
  return chosen;
}

Result<std::string> MakeUniqueId(const NvshmemLibrary& library) {
  UniqueId unique;
  const int status = library.get_uniqueid(&unique);
  if (status != 0) {
    return Status::Error("NVSHMEM could not make a unique id (status " + std::to_string(status) +
                         "): NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME names the network interface to use");
  }
  return std::string(reinterpret_cast<const char*>(&unique), sizeof(unique));
}

Status JoinWorld(const NvshmemLibrary& library, const CudaDriver& cuda, int pe, int n_pes,
                 const std::string& unique_id) {
  if (unique_id.size() != kUniqueIdBytes) {
    return Status::Error("the unique id has " + std::to_string(unique_id.size()) + " bytes, not " +
                         std::to_string(kUniqueIdBytes));
  }
  // NVSHMEM sets CU_CTX_SYNC_MEMOPS, which serves network transports; XLA would report flags that it has not set as an
  // error, in every process.
  unsigned flags = 0;
  const bool keeps_flags =
      cuda.ctx_get_flags != nullptr && cuda.ctx_set_flags != nullptr && cuda.ctx_get_flags(&flags) == kCudaSuccess;
  UniqueId id;
  memcpy(&id, unique_id.data(), sizeof(id));
  InitAttributes attributes;
  int status = library.set_attr_uniqueid_args(pe, n_pes, &id, &attributes);
  if (status == 0) status = library.hostlib_init_attr(kInitWithUniqueId, &attributes);
  if (keeps_flags) cuda.ctx_set_flags(flags);
  std::string failed = status == 0 ? "" : "status " + std::to_string(status);
  // Init returns 0 even if it got no further than its bootstrap; the next NVSHMEM call would then end the process.
  if (status == 0 && library.init_status() < kStatusInitialized) failed = "it got no further than its bootstrap";
  if (failed.empty()) return {};
  return Status::Error("NVSHMEM " + std::to_string(library.major) + "." + std::to_string(library.minor) +
                       " could not start as PE " + std::to_string(pe) + " of " + std::to_string(n_pes) + " (" + failed +
                       "): NVSHMEM_DEBUG=INFO shows why");
}

size_t OffsetInHeap(const NvshmemApi& api, const void* object, int pe) {
  const auto address = reinterpret_cast<uintptr_t>(object);
  // nvshmem_ptr is null for addresses below the heap.
  const auto within = [&](uintptr_t bytes_before) {
    return api.ptr(reinterpret_cast<const void*>(address - bytes_before), pe) != nullptr;
  };
  uintptr_t outside = 1;
  while (within(outside)) {
    if (outside > address / 2) return 0;
    outside *= 2;
  }
  uintptr_t inside = outside / 2;
  while (outside - inside > 1) {
    const uintptr_t middle = inside + (outside - inside) / 2;
    (within(middle) ? inside : outside) = middle;
  }
  return inside;
}

}  // namespace xla_shmem::gpu
