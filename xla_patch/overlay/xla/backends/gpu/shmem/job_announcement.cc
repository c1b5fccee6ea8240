#include "xla/backends/gpu/shmem/job_announcement.h"

#include <cstdint>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "xla/backends/gpu/shmem/job_rounds.h"
#include "xla_patch/nvshmem/gpu/world_members.h"
#include "xla_patch/nvshmem/gpu/world_settings.h"
#include "xla_patch/options/environment.h"
#include "xla_patch/thunks/gpu/arena_layout.h"
#include "xla_patch/types/status.h"

namespace xla::gpu {

using ::xla_shmem::EnvironmentOptions;
using ::xla_shmem::Result;
using ::xla_shmem::Status;
using ::xla_shmem::gpu::WorldMember;

// The agreement comes last, because variables of the user may have any characters.
std::string ToText(const Announcement& announcement) {
  const WorldMember& member = announcement.member;
  return absl::StrCat(member.host, " ", member.bus_id, " ", member.imex_channels, " ", member.free_bytes, "\n",
                      announcement.agreement);
}

Result<Announcement> AnnouncementOf(int process, const std::string& text) {
  const size_t end = text.find('\n');
  Announcement announcement;
  WorldMember& member = announcement.member;
  member.process = process;
  std::istringstream facts(text.substr(0, end));
  facts >> member.host >> member.bus_id >> member.imex_channels >> member.free_bytes;
  if (end == std::string::npos || facts.fail()) {
    return Status::Error(absl::StrCat("process ", process, " announced '", text, "': is another release installed?"));
  }
  announcement.agreement = text.substr(end + 1);
  return announcement;
}

size_t ArenaBytes(const EnvironmentOptions& options, int num_processes) {
  const size_t recommended = xla_shmem::gpu::ArenaLayout::RecommendedBytes(num_processes, options.multimem);
  return static_cast<size_t>(options.heap_bytes.value_or(static_cast<int64_t>(recommended)));
}

std::map<std::string, std::string> NvshmemSettings(const EnvironmentOptions& options, int num_processes, int hosts) {
  return xla_shmem::gpu::WorldSettings(ArenaBytes(options, num_processes), hosts, options.multimem);
}

Status CheckAnnouncements(const std::vector<std::string>& texts, const EnvironmentOptions& options,
                          bool own_heap_steps) {
  std::vector<WorldMember> members;
  std::vector<std::string> agreements;
  for (const std::string& text : texts) {
    Result<Announcement> announcement = AnnouncementOf(static_cast<int>(members.size()), text);
    if (!announcement.ok()) return announcement.status();
    members.push_back(std::move(announcement->member));
    agreements.push_back(std::move(announcement->agreement));
  }
  XLA_SHMEM_RETURN_IF_ERROR(CheckEqual(agreements));
  const auto settings = NvshmemSettings(options, static_cast<int>(members.size()), xla_shmem::gpu::CountHosts(members));
  return xla_shmem::gpu::CheckWorld(members, xla_shmem::gpu::HeapBytes(settings, own_heap_steps));
}

}  // namespace xla::gpu
