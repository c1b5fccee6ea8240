// Symmetric heaps for tests, over real shared-memory segments.
#ifndef XLA_SHMEM_TESTS_SHM_TEST_HEAP_H_
#define XLA_SHMEM_TESTS_SHM_TEST_HEAP_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/shm/process_group.h"
#include "xla_patch/shm/heap.h"
#include "xla_patch/shm/segment.h"

namespace xla_shmem::testing {

shm::JobKey RandomJobKey();

// The heap of a job of one process that owns all PEs. Aborts if there is no memory.
std::unique_ptr<shm::Heap> HeapOfOneProcess(int n_pes, size_t bytes_per_pe);

// The heap of a job of real processes with one PE each, in this process. All children of `group` call it. The names of
// the segments are unlinked when it returns.
std::unique_ptr<shm::Heap> HeapOfProcesses(ProcessGroup& group, const shm::JobKey& job, int process, int processes,
                                           size_t bytes_per_pe);

// Runs `body(pe)` on one thread a PE, bound to it (nvshmem_host_api.h), and joins them.
void RunPes(int n_pes, const std::function<void(int pe)>& body);

// Names in /dev/shm that belong to `job`.
std::vector<std::string> SegmentsOf(const shm::JobKey& job);

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_SHM_TEST_HEAP_H_
