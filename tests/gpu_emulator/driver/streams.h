// How work comes into streams.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>

namespace emulator {

// The stream behind a handle: the null stream of the current context for the special handles. Ends the process if the
// handle is no live stream, or if there is no current context for a special one.
CUstream Resolve(CUstream stream);

// The same for a call that reports errors: CUDA_SUCCESS, or INVALID_HANDLE, INVALID_CONTEXT, or the context's failure.
CUresult ResolveFor(const char* call, CUstream handle, CUstream* stream);

// Adds `work` to the stream, or to the graph that captures it as a node of `type`. Adds the dependencies that the
// legacy default stream brings. `number`, if not null, gets the operation's number in the stream, or 0 inside a
// capture.
CUresult Enqueue(CUstream handle, CUgraphNodeType type, std::function<void()> work, uint64_t* number = nullptr);

// The same for a call that has come through AwaitRoom (blocking.h) and may hold Global().
CUresult EnqueueNow(CUstream handle, CUgraphNodeType type, std::function<void()> work, uint64_t* number = nullptr);

}  // namespace emulator
