// What copies and fills do once they run. Graph nodes use the same work.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <functional>

namespace emulator {

// Copies bytes between device memory, pinned and pageable host memory. The source is read when the work runs. The
// destination reads as garbage first, and gets its content in pieces, in an order by the seed; a single aligned word of
// 1 to 8 bytes changes at once. Ends the process if memory may not be used so, or if source and destination overlap.
std::function<void()> CopyWork(CUdeviceptr to, CUdeviceptr from, size_t bytes, const char* name);

// Writes `count` elements of `element_bytes` (1, 2 or 4) bytes.
std::function<void()> FillWork(CUdeviceptr to, unsigned value, size_t element_bytes, size_t count, const char* name);

}  // namespace emulator
