// What a launch of a kernel does once it runs.
#pragma once

#include <cuda.h>

#include <functional>

#include "ptx/ptx.h"

namespace emulator {

// Reads the parameters now, as a launch does. Null, with a message, if the emulator cannot run the kernel.
std::function<void()> KernelWork(CUfunction function, ptx::Dim grid, ptx::Dim block, unsigned shared, void** parameters,
                                 void** extra);

}  // namespace emulator
