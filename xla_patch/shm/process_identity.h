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

// Yama may restrict ptrace to child processes. This asks it to permit all processes of this user to read the memory of
// this process, or takes that permission back.
void PermitReaders(bool permitted);

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_PROCESS_IDENTITY_H_
