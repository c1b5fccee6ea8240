#ifndef XLA_SHMEM_TESTS_TYPES_BROKEN_INVARIANT_H_
#define XLA_SHMEM_TESTS_TYPES_BROKEN_INVARIANT_H_

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace xla_shmem::testing {

// What a forked process prints when `run` breaks an invariant there; "" if it does not end that way.
template <typename Run>
std::string BrokenInvariant(Run run) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) {
    return "";
  }
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGABRT, SIG_DFL);
    dup2(pipe_ends[1], STDERR_FILENO);
    close(pipe_ends[0]);
    run();
    _exit(0);
  }
  close(pipe_ends[1]);
  std::string text;
  char buffer[512];
  for (ssize_t bytes = 0; (bytes = read(pipe_ends[0], buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<size_t>(bytes));
  }
  close(pipe_ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  const bool is_broken = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
  return is_broken && text.find("broken invariant: ") != std::string::npos ? text : "";
}

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_TYPES_BROKEN_INVARIANT_H_
