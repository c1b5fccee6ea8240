// Groups of calls: what comes between ncclGroupStart and ncclGroupEnd of a thread begins together.
#pragma once

#include <cuda.h>

#include <functional>

#include "nccl/communicator.h"
#include "nccl/plan.h"

namespace emulator::nccl {

void StartGroup();
// Returns a Result.
int EndGroup();

// Adds a call to the group of this thread, or makes it a group of its own.
int Enqueue(Communicator* communicator, const Operation& operation, CUstream stream);
// The same for the making of a communicator, which waits for other ranks. Those of a group wait side by side.
int Enqueue(std::function<void()> make);

}  // namespace emulator::nccl
