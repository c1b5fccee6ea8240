#include "xla_patch/shm/process_identity.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

namespace xla_shmem::shm {

uint64_t PidNamespace() {
  struct stat status;
  return stat("/proc/self/ns/pid", &status) == 0 ? static_cast<uint64_t>(status.st_ino) : 0;
}

namespace {

// Field 3 of /proc/<pid>/stat (proc(5)), the state, and what follows it; "" if there is no such process.
std::string FieldsFromState(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return "";
  char text[1024];
  const ssize_t size = read(file, text, sizeof(text) - 1);
  close(file);
  if (size <= 0) return "";
  text[size] = '\0';
  // The command name (field 2) may contain blanks and brackets, so count the fields from its closing bracket.
  const char* bracket = strrchr(text, ')');
  return bracket == nullptr || bracket[1] == '\0' ? "" : bracket + 2;
}

uint64_t StartTimeIn(const std::string& fields) {
  if (fields.empty() || fields[0] == 'Z' || fields[0] == 'X') return 0;
  constexpr int kState = 3, kStartTime = 22;
  const char* cursor = fields.c_str();
  for (int field = kState; field < kStartTime; ++field) {
    cursor = strchr(cursor + 1, ' ');
    if (cursor == nullptr) return 0;
  }
  return strtoull(cursor, nullptr, 10);
}

}  // namespace

uint64_t ProcessStartTime(pid_t pid) { return StartTimeIn(FieldsFromState(pid)); }

ProcessState StateOf(pid_t pid, uint64_t start_time) {
  const std::string fields = FieldsFromState(pid);
  if (StartTimeIn(fields) != start_time || start_time == 0) return ProcessState::kGone;
  if (fields[0] == 'T') return ProcessState::kStopped;
  return fields[0] == 't' ? ProcessState::kTraced : ProcessState::kRuns;
}

void PermitReaders(Readers readers) {
  constexpr pid_t kInit = 1;
  unsigned long who = 0;
  if (readers == Readers::kUser) who = PR_SET_PTRACER_ANY;
  if (readers == Readers::kSiblings && getppid() > kInit) who = static_cast<unsigned long>(getppid());
  // Fails if there is no Yama; then it is not needed.
  prctl(PR_SET_PTRACER, who, 0, 0, 0);
}

}  // namespace xla_shmem::shm
