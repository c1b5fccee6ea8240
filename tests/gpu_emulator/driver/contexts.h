// Devices, their contexts, and the context that is current in a thread.
#pragma once

#include <cuda.h>

#include <chrono>
#include <cstddef>
#include <set>

#include "driver/objects.h"

namespace emulator {

constexpr int kGreatestPriority = -5;

struct Device {
  CUctx_st primary;
  size_t used = 0;      // bytes
  std::set<int> peers;  // devices whose memory this one's context may use (cuCtxEnablePeerAccess)
};

int Visible();             // devices, by CUDA_VISIBLE_DEVICES
int Physical(int device);  // number of a visible device in the machine
int VisibleAs(int gpu);    // the device that the GPU of the machine is here; -1: none
bool IsDevice(CUdevice device);
bool IsContext(CUcontext context);
Device& DeviceOf(int device);

// Whether the hardware lets one device use memory of the other, or of itself.
bool Reaches(int device, int owner);
// Whether kernels of `device` may use what cuMemAlloc made on `owner`. Requires Global().
bool MayUseMemoryOf(int device, int owner);

// Devices whose primary context is retained.
int UsedDevices();

CUcontext Current();
int CurrentDevice();  // 0 without a context

// Waits for the work that all streams of the device have now.
void WaitForDevice(int device);

// The same until a moment: false if it has come first.
bool WaitForDeviceUntil(int device, std::chrono::steady_clock::time_point moment);

// CUDA_SUCCESS if a live context is current; otherwise INVALID_CONTEXT or CONTEXT_IS_DESTROYED, and a line on stderr
// that names the call.
CUresult RequireContext(const char* call);

}  // namespace emulator
