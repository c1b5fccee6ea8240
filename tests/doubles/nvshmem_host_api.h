// Doubles NVSHMEM's host calls (xla_patch/nvshmem/api.h) over POSIX shared memory. Only C++ unit tests use it, in one
// process with several PEs or in several. Whole jobs use that of tests/gpu_emulator.
//
// my_pe, malloc and barriers answer for the PE that the calling thread is bound to; a process with one PE needs
// no binding. Calls that address memory find the PE by the heap in which the address lies.
#ifndef XLA_SHMEM_TESTS_DOUBLES_NVSHMEM_HOST_API_H_
#define XLA_SHMEM_TESTS_DOUBLES_NVSHMEM_HOST_API_H_

#include <chrono>
#include <cstddef>

#include "tests/doubles/cuda_stream.h"
#include "xla_patch/nvshmem/api.h"
#include "xla_patch/shm/heap.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::nvshmem_double {

// Puts `heap` behind the table, or detaches it (nullptr); it must outlive every call. Reserves words for barriers in
// it, so this must come before any other allocation, on every PE. Returns false if the heap is too small for them.
bool SetHeap(shm::Heap* heap);
shm::Heap* CurrentHeap();

// Binds the calling thread to a local PE.
void BindPe(int pe);

// Holds the stream until all PEs have come to their n-th barrier. For tests: the product needs none.
void BarrierOnStream(StreamHandle stream);

// Calls on streams besides NVSHMEM's.
struct StreamApi {
  StreamHandle (*create)();
  void (*destroy)(StreamHandle stream);
  // Runs what can run; true if everything enqueued has run.
  bool (*query)(StreamHandle stream);
  // Drops what has not run.
  void (*abandon)(StreamHandle stream);
  void (*memcpy_async)(void* destination, const void* source, size_t bytes, StreamHandle stream);
  void (*memset_async)(void* destination, int value, size_t bytes, StreamHandle stream);
  // Runs `function(argument)` in stream order. It must not block.
  void (*launch_host_func)(StreamHandle stream, void (*function)(void*), void* argument);
};

// A StreamHandle of these calls is a Stream* (cuda_stream.h).
struct HostApi {
  NvshmemApi shmem;
  StreamApi stream;
};
const HostApi& Api();

// Advances `stream` until it is idle: polls for `spin`, then sleeps on the process's doorbell. Error if `deadline`
// passes or the job has failed.
Status Synchronize(Stream& stream, std::chrono::steady_clock::time_point deadline, std::chrono::microseconds spin);

}  // namespace xla_shmem::nvshmem_double

#endif  // XLA_SHMEM_TESTS_DOUBLES_NVSHMEM_HOST_API_H_
