// What virtual memory management shares: handles of physical memory and of multicast objects, and how they go to other
// processes.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "driver/memory.h"

namespace emulator {

// What a CUmemGenericAllocationHandle stands for: one of the two. Mappings keep it when the handle is released.
struct Shareable {
  std::shared_ptr<Backing> memory;
  std::shared_ptr<MulticastObject> multicast;
};

// Handles are numbers that are never given again.
CUmemGenericAllocationHandle NewHandle(Shareable shareable);

// Ends the process if there is no such handle, or none any more. Requires Global().
Shareable& HandleOf(CUmemGenericAllocationHandle handle, const char* call);

// Ends the process unless `value` is a multiple of the granularity; `what` names it.
void CheckGranular(const char* call, const char* what, uint64_t value);

// CUDA_SUCCESS, or why no memory or object can be made that is exported so.
CUresult CheckHandleTypes(unsigned types, const char* call);

// The files behind memory and multicast objects tell what they are by their names.
std::string MemoryFileName(int gpu);
inline constexpr char kMulticastFileName[] = "gpu_emulator_multicast";

// A file in memory of a process, for others to open; -1 if it is not there.
struct FileOfProcess {
  int pid, fd;
};
int OpenFile(const FileOfProcess& file);

}  // namespace emulator
