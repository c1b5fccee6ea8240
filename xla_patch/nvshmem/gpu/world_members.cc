#include "xla_patch/nvshmem/gpu/world_members.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
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

}  // namespace xla_shmem::gpu
