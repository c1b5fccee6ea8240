// Shared memory of the processes of a world, for what the real library does by its bootstrap.
#pragma once

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>

#include "driver/settings.h"

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
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(Setting("NVSHMEM_TIMEOUT", 60));
  while (!reached()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

}  // namespace emulator::nvshmem
