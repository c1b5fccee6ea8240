#include "xla_patch/runtime/observe/recorded_peers.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "xla_patch/runtime/observe/flight_recorder.h"
#include "xla_patch/shm/process_identity.h"

namespace xla_shmem::observe {
namespace {

// The first part of a RingHeader, as a file has it.
struct Recorded {
  uint32_t pid = 0;
  uint32_t exit_status = 0;
  uint64_t start_time = 0;
  uint64_t pid_namespace = 0;
};

std::optional<Recorded> ReadRecord(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  Recorded found;
  const auto read = [&](auto* value, size_t offset) {
    return pread(file, value, sizeof(*value), static_cast<off_t>(offset)) == static_cast<ssize_t>(sizeof(*value));
  };
  const bool was_read = read(&found.pid, offsetof(RingHeader, pid)) &&
                        read(&found.exit_status, offsetof(RingHeader, exit_status)) &&
                        read(&found.start_time, offsetof(RingHeader, pid_start_time)) &&
                        read(&found.pid_namespace, offsetof(RingHeader, pid_namespace));
  close(file);
  return was_read ? std::optional<Recorded>(found) : std::nullopt;
}

}  // namespace

RecordedPeers::RecordedPeers(std::string directory, const std::vector<int>& processes, int own_process,
                             std::chrono::nanoseconds stopped_for_good)
    : directory_(std::move(directory)), peers_(processes), stopped_for_good_(stopped_for_good) {
  peers_.erase(std::remove(peers_.begin(), peers_.end(), own_process), peers_.end());
}

RecordedPeers::Facts RecordedPeers::Look() {
  Facts facts;
  if (directory_.empty()) return facts;
  const auto now = std::chrono::steady_clock::now();
  for (const int process : peers_) {
    const std::string name = "process " + std::to_string(process);
    const std::optional<Recorded> record = ReadRecord(FlightRecorder::PathOf(directory_, process));
    if (!record.has_value()) {
      facts.late += "; " + name + " has begun no collective";
      continue;
    }
    const std::string who = name + " (pid " + std::to_string(record->pid) + ")";
    const bool is_visible = record->pid_namespace == shm::PidNamespace();
    const shm::ProcessState state =
        is_visible ? shm::StateOf(static_cast<pid_t>(record->pid), record->start_time) : shm::ProcessState::kRuns;
    if (state != shm::ProcessState::kStopped) stopped_since_.erase(process);
    switch (state) {
      case shm::ProcessState::kGone: {
        const bool was_killed = record->exit_status == 0;
        const std::string text =
            who + " has exited" + (was_killed ? "" : " with code " + std::to_string(record->exit_status - 1));
        if (record->exit_status != 1 && facts.lost.empty()) facts.lost = text;
        facts.late += "; " + text;
        break;
      }
      case shm::ProcessState::kStopped: {
        const auto since = stopped_since_.emplace(process, now).first->second;
        if (now - since >= stopped_for_good_ && facts.lost.empty()) facts.lost = who + " has been stopped for long";
        facts.late += "; " + who + " is stopped";
        break;
      }
      case shm::ProcessState::kTraced:
        facts.late += "; " + who + " is stopped by a debugger";
        break;
      case shm::ProcessState::kRuns:
        facts.late += "; " + who + " is running";
        break;
    }
  }
  return facts;
}

}  // namespace xla_shmem::observe
