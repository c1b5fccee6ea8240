// Devices, their contexts, and the context that is current in a thread.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "driver/objects.h"

namespace emulator {

struct Device {
  CUctx_st primary;
  size_t used = 0;
};

int Visible();             // devices, by CUDA_VISIBLE_DEVICES
int Physical(int device);  // number of a visible device in the machine
Device& DeviceOf(int device);

CUcontext Current();
int CurrentDevice();

}  // namespace emulator
