#include "xla/backends/gpu/shmem/job_announcement.h"

#include <cstdint>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "xla_patch/nvshmem/gpu/bootstrap.h"
#include "xla_patch/thunks/gpu/arena_layout.h"

namespace xla::gpu {

using ::xla_shmem::EnvironmentOptions;
using ::xla_shmem::Result;
using ::xla_shmem::Status;
using ::xla_shmem::gpu::WorldMember;

std::string ToText(const WorldMember& member) {
  return absl::StrCat(member.host, " ", member.bus_id, " ", member.imex_channels, " ", member.free_bytes);
}

Result<std::vector<WorldMember>> MembersOf(const std::vector<std::string>& texts) {
  std::vector<WorldMember> members;
  for (const std::string& text : texts) {
    WorldMember& member = members.emplace_back();
    member.process = static_cast<int>(members.size()) - 1;
    std::istringstream facts(text);
    facts >> member.host >> member.bus_id >> member.imex_channels >> member.free_bytes;
    if (facts.fail()) {
      return Status::Error(
          absl::StrCat("process ", member.process, " announced '", text, "': is another release installed?"));
    }
  }
  return members;
}

size_t ArenaBytes(const EnvironmentOptions& options, int num_processes) {
  const size_t recommended = xla_shmem::gpu::ArenaLayout::RecommendedBytes(num_processes, options.multimem);
  return static_cast<size_t>(options.heap_bytes.value_or(static_cast<int64_t>(recommended)));
}

std::map<std::string, std::string> NvshmemSettings(const EnvironmentOptions& options,
                                                   const std::vector<WorldMember>& members) {
  return xla_shmem::gpu::WorldSettings(ArenaBytes(options, static_cast<int>(members.size())),
                                       xla_shmem::gpu::CountHosts(members), options.multimem);
}

Status CheckMembers(const std::vector<std::string>& texts, const EnvironmentOptions& options, bool own_heap_steps) {
  const Result<std::vector<WorldMember>> members = MembersOf(texts);
  if (!members.ok()) return members.status();
  const size_t heap_bytes = xla_shmem::gpu::HeapBytes(NvshmemSettings(options, *members), own_heap_steps);
  return xla_shmem::gpu::CheckWorld(*members, heap_bytes);
}

}  // namespace xla::gpu
