// How the system identifies a process, and which processes may read its memory.
#ifndef XLA_SHMEM_SHM_PROCESS_IDENTITY_H_
#define XLA_SHMEM_SHM_PROCESS_IDENTITY_H_

#include <sys/types.h>

#include <cstdint>

namespace xla_shmem::shm {

// Inode of this process's pid namespace, 0 if /proc does not tell.
uint64_t PidNamespace();

// Start time of `pid` in clock ticks since boot, 0 if there is no such process or it is a zombie.
uint64_t ProcessStartTime(pid_t pid);

enum class ProcessState {
  kRuns,
  kStopped,  // by a signal (SIGSTOP, SIGTSTP)
  kTraced,   // stopped by a debugger
  kGone,     // there is no such process, or it is a zombie
};
// The state of the process `pid` that started at `start_time`. Reads /proc: some microseconds.
ProcessState StateOf(pid_t pid, uint64_t start_time);

// Who may read the memory of this process where Yama restricts that to its ancestors (kernel.yama.ptrace_scope = 1).
// Yama knows no permission to read alone: a reader may also attach a debugger.
enum class Readers {
  kNobody,
  kSiblings,  // the parent, which is the job's launcher, and all processes that descend from it; nobody if that is init
  kUser,      // all processes of the user
};
void PermitReaders(Readers readers);

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_PROCESS_IDENTITY_H_
