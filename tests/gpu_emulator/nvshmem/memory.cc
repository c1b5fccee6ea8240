// The symmetric heap: allocation, and the addresses of other PEs.
#include <string>

#include "nvshmem/world.h"

namespace emulator::nvshmem {

extern "C" {

void* nvshmem_malloc(size_t bytes) {
  World& world = Initialized("nvshmem_malloc");
  constexpr size_t kAlignment = 512;
  const size_t padded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  char* memory = nullptr;
  if (padded <= world.heap_bytes - world.used_bytes && !Failing("no-memory")) {
    memory = world.heaps[world.me] + world.used_bytes;
    world.used_bytes += padded;
  }
  return Meet() ? memory : nullptr;
}

void nvshmem_free(void* memory) {
  Initialized("nvshmem_free");
  Demand(memory == nullptr || IsSymmetric(memory, 1), "nvshmem_free of memory that is not in this PE's symmetric heap");
  Meet();
}

void* nvshmem_ptr(const void* address, int pe) {
  const World& world = Initialized("nvshmem_ptr");
  Demand(pe >= 0 && pe < world.size, "nvshmem_ptr for PE " + std::to_string(pe));
  if (!IsSymmetric(address, 1) || (Failing("no-peer") && pe != world.me)) return nullptr;
  return OnPe(address, pe);
}

void* nvshmemx_mc_ptr(int team, const void* address) {
  const World& world = Initialized("nvshmemx_mc_ptr");
  Demand(team == 0, "nvshmemx_mc_ptr of team " + std::to_string(team) + ": only that of the world is emulated");
  if (world.multicast == nullptr || !IsSymmetric(address, 1)) return nullptr;
  return world.multicast + (static_cast<const char*>(address) - world.heaps[world.me]);
}

}  // extern "C"

}  // namespace emulator::nvshmem
