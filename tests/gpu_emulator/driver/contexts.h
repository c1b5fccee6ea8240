// Devices, their contexts, and the context that is current in a thread.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "driver/objects.h"

namespace emulator {

constexpr int kGreatestPriority = -5;

struct Device {
  CUctx_st primary;
  size_t used = 0;  // bytes
};

int Visible();             // devices, by CUDA_VISIBLE_DEVICES
int Physical(int device);  // number of a visible device in the machine
bool IsDevice(CUdevice device);
Device& DeviceOf(int device);

CUcontext Current();
int CurrentDevice();  // 0 without a context

// Waits for the work that all streams of the device have now.
void WaitForDevice(int device);

// CUDA_SUCCESS if a live context is current; otherwise INVALID_CONTEXT or CONTEXT_IS_DESTROYED, and a line on stderr
// that names the call.
CUresult RequireContext(const char* call);

}  // namespace emulator
