#include "nvshmem/world.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace emulator::nvshmem {

World& TheWorld() {
  static auto* const world = new World;
  return *world;
}

void Refuse(const std::string& why) {
  fprintf(stderr, "emulated NVSHMEM: %s\n", why.c_str());
  fflush(stderr);
  abort();
}

void Demand(bool holds, const std::string& otherwise) {
  if (!holds) Refuse(otherwise);
}

World& Initialized(const char* call) {
  Demand(TheWorld().status == InitStatus::kInitialized, std::string(call) + " before NVSHMEM is initialised");
  return TheWorld();
}

bool Failing(const char* how) {
  const char* chosen = getenv("GPU_EMULATOR_NVSHMEM");
  return chosen != nullptr && strcmp(chosen, how) == 0;
}

char* OnPe(const void* address, int pe) {
  const World& world = TheWorld();
  return world.heaps[pe] + (static_cast<const char*>(address) - world.heaps[world.me]);
}

bool IsSymmetric(const void* address, size_t bytes) {
  const World& world = TheWorld();
  const auto* first = static_cast<const char*>(address);
  const char* heap = world.heaps[world.me];
  return first >= heap && first < heap + world.heap_bytes &&
         bytes <= static_cast<size_t>(heap + world.heap_bytes - first);
}

void CheckOnStream(const char* call, CUstream stream) {
  Demand(!Initialized(call).shares_gpu, std::string(call) + " between PEs that share a GPU without MPS");
  Demand(stream != nullptr, std::string(call) + " on the null stream");
}

void CheckSymmetric(const char* call, const void* address, size_t bytes) {
  Demand(IsSymmetric(address, bytes), std::string(call) + " for memory that is not in this PE's symmetric heap");
}

}  // namespace emulator::nvshmem
