// The NVSHMEM table (api.h) over POSIX shared memory.
//
// Where NVSHMEM has one PE a process, a process here may own several (one a device). Calls that address memory do not
// care: they find the PE by the heap an address lies in. Calls that ask "who am I" (my_pe, malloc, teams, barriers)
// answer for the PE the calling thread is bound to; a process with one PE needs no binding.
#ifndef XLA_SHMEM_TESTS_DOUBLES_HOST_API_H_
#define XLA_SHMEM_TESTS_DOUBLES_HOST_API_H_

#include <chrono>
#include <string>

#include "tests/doubles/stream.h"
#include "xla_patch/nvshmem/api.h"
#include "xla_patch/shm/heap.h"

namespace xla_shmem::shm {

// Room for NVSHMEM_MAX_TEAMS in NVSHMEM's words; its default there is 32 as well.
inline constexpr int kMaxTeams = 32;

// Makes `heap` the one behind the table; it must outlive every call. Reserves the team area in it, so it comes before
// any other allocation, on all PEs alike. Pass nullptr to detach. Returns false if the heap has no room.
bool SetHeap(Heap* heap);
Heap* CurrentHeap();

// Binds the calling thread to a local PE.
void BindPe(int pe);

const TransportApi& Api();

// Advances `stream` until it is idle: polls for `spin`, then sleeps on the process's doorbell. False, with a sentence
// in `error`, when `deadline` passes or the job has failed.
bool Synchronize(Stream& stream, std::chrono::steady_clock::time_point deadline, std::chrono::microseconds spin,
                 std::string* error);

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_TESTS_DOUBLES_HOST_API_H_
