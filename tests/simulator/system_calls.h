// What the simulated system does, beyond time and threads.
#ifndef XLA_SHMEM_TESTS_SIMULATOR_SYSTEM_CALLS_H_
#define XLA_SHMEM_TESTS_SIMULATOR_SYSTEM_CALLS_H_

#include <sys/types.h>

#include "tests/simulator/scheduler.h"

namespace xla_shmem::simulator {

struct SystemOptions {
  int processors = 2;           // of each process's affinity
  double spurious_wakeups = 0;  // chance of a wait to return without a reason
  int with_shared_buffers = 0;  // so many processes have their large buffers in memory that others map
  double refused_reads = 0;     // chance of a cross-memory read to be refused from then on
  double partial_reads = 0;     // chance of a cross-memory read to return early
  double refused_threads = 0;   // chance of a thread's start to fail
  // No futex may wait until its time limit: whoever makes its condition true wakes it.
  bool must_be_woken = false;
};
SystemOptions& System();

inline pid_t PidOf(const Process& process) { return 1000 + process.number; }

}  // namespace xla_shmem::simulator

#endif  // XLA_SHMEM_TESTS_SIMULATOR_SYSTEM_CALLS_H_
