#include "tests/shm/process_group.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace xla_shmem::testing {

ProcessGroup::ProcessGroup(int processes)
    : processes_(processes), bytes_(sizeof(Shared) + static_cast<size_t>(processes) * kTextBytes) {
  void* address = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) abort();
  shared_ = static_cast<Shared*>(address);
}

ProcessGroup::~ProcessGroup() {
  for (pid_t child : children_) {
    if (child <= 0) continue;
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  munmap(shared_, bytes_);
}

void ProcessGroup::Start(const std::function<std::string(int rank)>& body) {
  fflush(nullptr);
  for (int rank = 0; rank < processes_; ++rank) {
    const pid_t child = fork();
    if (child < 0) abort();
    if (child == 0) {
      children_.clear();
      const std::string verdict = body(rank);
      const size_t length = std::min<size_t>(verdict.size(), kTextBytes - 1);
      memcpy(text(rank), verdict.data(), length);
      fflush(nullptr);
      _exit(0);
    }
    children_.push_back(child);
  }
}

void ProcessGroup::Meet() {
  const auto all = static_cast<uint32_t>(processes_);
  const uint32_t goal = shared_->meetings.fetch_add(1) / all * all + all;
  while (shared_->meetings.load() < goal) usleep(100);
}

void ProcessGroup::Signal(int rank, int number) { kill(children_[rank], number); }

std::string ProcessGroup::Join(int rank) {
  int status = 0;
  if (children_[rank] <= 0 || waitpid(children_[rank], &status, 0) < 0) return "not running";
  children_[rank] = 0;
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) return "exit code " + std::to_string(WEXITSTATUS(status));
  return text(rank);
}

std::vector<std::string> ProcessGroup::Join() {
  std::vector<std::string> verdicts;
  for (int rank = 0; rank < processes_; ++rank) verdicts.push_back(Join(rank));
  return verdicts;
}

}  // namespace xla_shmem::testing
