// Stream memory operations: waits for a word in memory, and writes of one.
#pragma once

#include <cuda.h>

#include <functional>

namespace emulator {

// What a batch does once it runs, or null if an operation is invalid. Reads the operations now.
std::function<void()> MemoryOperationsWork(unsigned count, const CUstreamBatchMemOpParams* operations);

}  // namespace emulator
