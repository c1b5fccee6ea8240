// How work comes into streams.
#pragma once

#include <cuda.h>

#include <functional>

namespace emulator {

// The stream behind a handle: the null stream of the current context for the special handles.
CUstream Resolve(CUstream stream);

// Adds `work` to the stream, or to the graph that captures it as a node of `type`.
CUresult Enqueue(CUstream handle, CUgraphNodeType type, std::function<void()> work);

}  // namespace emulator
