// What NCCL's reductions do to elements.
#pragma once

#include <cstdint>

namespace emulator::nccl {

// Whether the double reduces elements of this type. NCCL also reduces floats of 8 bits; the double only moves them.
bool IsReduced(int type, int reduction);

// into[i] = into[i] op with[i]. Sums and products of 16-bit floats are rounded after each addition, as NCCL's own are.
void Reduce(int type, int reduction, char* into, const char* with, uint64_t count);

}  // namespace emulator::nccl
