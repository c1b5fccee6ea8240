// Doubles the CUDA driver's virtual memory management in tests: physical memory is a memfd, an address range is one of
// this process, and memory without access faults. Addresses of a multicast object reach memory of nobody; to bind
// before all devices were added is an error, where the driver waits.
#ifndef XLA_SHMEM_TESTS_NVSHMEM_GPU_MEMORY_DOUBLE_H_
#define XLA_SHMEM_TESTS_NVSHMEM_GPU_MEMORY_DOUBLE_H_

#include <cstddef>

#include "xla_patch/nvshmem/gpu/cuda_driver.h"

namespace xla_shmem::testing {

inline constexpr size_t kDoubleGranularity = size_t{64} << 10;

// What the driver refuses from now on; -1: nothing.
struct RefusedMemory {
  int create_on = -1;  // a device
  int access_of = -1;  // a device
  bool import = false;
  int exports_after = -1;  // how many succeed
  bool multicast = false;  // new objects
  int add = -1;            // a device, to a multicast object
};
RefusedMemory& Refused();

// Handles, mappings and reservations that exist.
size_t LiveMemoryObjects();
// Devices whose memory is bound to a multicast object.
size_t BoundToMulticast();

void AddVirtualMemory(gpu::CudaDriver* driver);

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_NVSHMEM_GPU_MEMORY_DOUBLE_H_
