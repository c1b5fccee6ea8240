// Kernels that XLA brings as what NVIDIA's compiler made of them, which the emulator does not run: native twins by
// name.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace emulator {

struct Native {
  const char* name;           // of the function in XLA's sources, a part of the kernel's mangled name
  std::vector<size_t> bytes;  // of each parameter
  void (*run)(const std::vector<uint64_t>& parameters);
};

// The kernels with a twin that a module's PTX defines.
std::set<std::string> TwinsIn(const std::string& ptx);

// The twin of a kernel, or null. `in_module`: the kernel is part of a module that was loaded, else of a program.
const Native* FindNative(const std::string& name, bool in_module);

}  // namespace emulator

// For our libcudart: a function object for a kernel that XLA registered by name.
extern "C" CUresult gpu_emulator_named_kernel(CUfunction* function, const char* name);

// For our library doubles: they load code for the current device, which may wait as loading a module does.
extern "C" void gpu_emulator_load(const char* library);

// For our library doubles: whether the device whose kernel this is has failed, so that one which waits ends.
extern "C" int gpu_emulator_failed();

// For our library doubles: enqueues `run` as a kernel of that name. It gets a copy of the `bytes` of parameters, which
// memcpy can copy.
extern "C" CUresult gpu_emulator_launch(CUstream stream, const char* name, void (*run)(const void* parameters),
                                        const void* parameters, size_t bytes);
