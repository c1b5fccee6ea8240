// Shared memory of the processes of a world, for what the real library does by its bootstrap.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "driver/settings.h"
#include "driver/shared_object.h"

namespace emulator::nvshmem {

constexpr int kMaxPes = 128;

struct Control {
  struct Pe {
    std::atomic<uint32_t> published;
    int device;
    CUipcMemHandle heap;
    size_t heap_bytes;
  };
  Pe pes[kMaxPes];
  std::atomic<uint32_t> attached;
  std::atomic<uint64_t> arrived[kMaxPes];  // by the PE that waits
};

// Maps the world's control memory; null on failure. `name` is that of a shared-memory object.
Control* MapControl(const std::string& name);
// Of MapControl.
Control& TheControl();

// Repeats `reached` until it holds; false after GPU_EMULATOR_NVSHMEM_TIMEOUT seconds.
template <typename Reached>
bool WaitUntil(Reached reached) {
  return WaitFor(Setting("NVSHMEM_TIMEOUT", 60), reached);
}

}  // namespace emulator::nvshmem
