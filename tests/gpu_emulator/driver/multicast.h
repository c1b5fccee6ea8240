// Multicast memory: addresses that stand for the same offset in memory of several GPUs. Only multimem instructions may
// use them.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace emulator {

// Requires Global().
bool IsMulticast(uint64_t address);

}  // namespace emulator

// For our NVSHMEM: a new multicast address for `bytes` bytes at each of `count` members, which are addresses of this
// process.
extern "C" CUresult gpu_emulator_multicast(CUdeviceptr* address, const CUdeviceptr* members, size_t count,
                                           size_t bytes);
