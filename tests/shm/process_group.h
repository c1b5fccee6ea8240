// Real processes for tests: forked children, their barrier, and their results.
#ifndef XLA_SHMEM_TESTS_SHM_PROCESS_GROUP_H_
#define XLA_SHMEM_TESTS_SHM_PROCESS_GROUP_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace xla_shmem::testing {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kUnderThreadSanitizer = true;
#else
inline constexpr bool kUnderThreadSanitizer = false;
#endif

// ThreadSanitizer sees one process. If two of its threads write to a peer's block one after the other, the peer's grant
// orders them. ThreadSanitizer does not see the grant and would report a race, so it checks jobs of threads only.
inline constexpr bool kBlindToOtherProcesses = kUnderThreadSanitizer;

class ProcessGroup {
 public:
  explicit ProcessGroup(int processes);
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  // Forks the children. Each runs `body(rank)` and ends with _exit, without the destructors of this process's objects.
  // The caller must have no other threads. Join returns the result of `body`.
  void Start(const std::function<std::string(int rank)>& body);

  // A barrier of all children; may be called again.
  void Meet();

  // Words that all children share with the parent.
  std::atomic<uint64_t>& word(int index) { return shared_->words[index]; }

  void Signal(int rank, int number);
  // Waits for one child, or for all. Returns the result of its body, or "signal 9", "exit code 3".
  std::string Join(int rank);
  std::vector<std::string> Join();

 private:
  static constexpr int kTextBytes = 4096;
  struct Shared {
    std::atomic<uint32_t> meetings;
    std::atomic<uint64_t> words[16];
  };
  char* text(int rank) { return reinterpret_cast<char*>(shared_ + 1) + static_cast<size_t>(rank) * kTextBytes; }

  const int processes_;
  size_t bytes_;
  Shared* shared_;
  std::vector<pid_t> children_;
};

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_SHM_PROCESS_GROUP_H_
