// Windows of a communicator: memory of its ranks that others put into, and the signals that go with it.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "nccl/communicator.h"

namespace emulator::nccl {

// A rank's memory in the window of that number, which all ranks of the communicator have. Behind NCCL's handle.
struct Window {
  Communicator* communicator;
  char* base;
  uint64_t bytes;
  int number = 0;
};

// Waits for all ranks to register the window, with as many bytes; ends the process if they do not come in
// GPU_EMULATOR_NCCL_TIMEOUT seconds (60), or if the buffer cannot be a window.
Window* RegisterWindow(Communicator* communicator, void* buffer, size_t bytes, int flags);
void DeregisterWindow(Communicator* communicator, Window* window);

// What a signal counts for.
struct Signal {
  int index, context;
};

// For a stream's thread: puts `bytes` at `offset` of the peer's window, and signals; no bytes for a signal alone. The
// bytes come at once, or only when the peer waits for the signal: a seed decides, as both may be.
void Put(Communicator& communicator, int peer, const Window* window, uint64_t offset, const char* from, uint64_t bytes,
         Signal signal);
// Takes one signal of the peer, and the bytes that were put with it. False if it has not come.
bool TakeSignal(Communicator& communicator, int peer, Signal signal);

// Ends the process if [from, from + bytes) lies in no window of this rank.
void DemandInWindow(const Communicator& communicator, const char* from, uint64_t bytes, const char* call);

// Forgets the windows of a communicator that ends.
void DropWindows(const Communicator* communicator);

}  // namespace emulator::nccl
