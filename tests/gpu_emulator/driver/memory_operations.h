// Stream memory operations: waits for a word in memory, and writes of one.
#pragma once

#include <cuda.h>

#include <functional>

namespace emulator {

// What a batch does once it runs, or null if an operation is invalid. Reads the operations now.
std::function<void()> MemoryOperationsWork(unsigned count, const CUstreamBatchMemOpParams* operations);

}  // namespace emulator

extern "C" {

// For our NVSHMEM, whose heap is memory of cuMemCreate in the real library: treats the memory at `address` so.
CUresult gpu_emulator_treat_as_virtual(CUdeviceptr address);
// A kernel that spins until the word is equal to `value`, or at least that (CU_STREAM_WAIT_VALUE_*).
CUresult gpu_emulator_spin(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned comparison);

}  // extern "C"
