// Doubles multicast memory: addresses that stand for the same offset in the heaps of all PEs. Only the hooks of
// multimem instructions (tests/nvshmem/gpu/kernels_on_cpu.cc) may use them: an ordinary load or store there ends the
// process.
#ifndef XLA_SHMEM_TESTS_DOUBLES_MULTICAST_H_
#define XLA_SHMEM_TESTS_DOUBLES_MULTICAST_H_

#include <cstddef>
#include <vector>

#include "xla_patch/shm/heap.h"

namespace xla_shmem::nvshmem_double {

// `heap`: the PEs; null for none.
void SetMulticastHeap(shm::Heap* heap);
char* MulticastAddress(size_t offset);
// The PEs' own addresses for `bytes` bytes at a multicast address. Ends the process if it is none, or if it is not a
// multiple of `bytes`.
std::vector<char*> MemberAddresses(const char* multicast, size_t bytes);

// Multimem loads and stores so far, in this process.
struct MulticastCounts {
  size_t loads = 0;
  size_t stores = 0;
};
MulticastCounts CountsOfMulticast();
void CountMulticast(bool store);

}  // namespace xla_shmem::nvshmem_double

#endif  // XLA_SHMEM_TESTS_DOUBLES_MULTICAST_H_
