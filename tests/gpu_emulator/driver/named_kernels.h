// Kernels that XLA links as machine code, which the emulator cannot run: native twins by name.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace emulator {

struct Native {
  const char* part;           // of the name
  std::vector<size_t> bytes;  // of each parameter
  void (*run)(const std::vector<uint64_t>& parameters);
};

// The twin of a kernel, or null.
const Native* FindNative(const std::string& name);

}  // namespace emulator

// For our libcudart: a function object for a kernel that XLA registered by name.
extern "C" CUresult gpu_emulator_named_kernel(CUfunction* function, const char* name);

// For our library doubles: enqueues `run` as a kernel of that name. It gets a copy of the `bytes` of parameters, which
// memcpy can copy.
extern "C" CUresult gpu_emulator_launch(CUstream stream, const char* name, void (*run)(const void* parameters),
                                        const void* parameters, size_t bytes);
