// Multicast memory: addresses that stand for the same offset in memory of several GPUs. Only multimem instructions may
// use them.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace emulator {

struct MulticastObject;

// Takes the file of an exported object.
std::shared_ptr<MulticastObject> OpenMulticast(int fd);

int FileOf(const MulticastObject& object);
size_t BytesOf(const MulticastObject& object);
unsigned HandleTypesOf(const MulticastObject& object);
bool IsInTeam(const MulticastObject& object, int gpu);

// Blocks until all devices were added, as documented. Ends the process after GPU_EMULATOR_MULTICAST_TIMEOUT seconds
// (60).
void WaitForTeam(const MulticastObject& object, const char* call);

// Requires Global().
bool IsMulticast(uint64_t address);

}  // namespace emulator

// For our NVSHMEM: a new multicast address for `bytes` bytes at each of `count` members, which are addresses of this
// process.
extern "C" CUresult gpu_emulator_multicast(CUdeviceptr* address, const CUdeviceptr* members, size_t count,
                                           size_t bytes);
