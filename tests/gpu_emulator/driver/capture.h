// Capture of streams into graphs, and what calls may not do meanwhile.
//
// A call that breaks the rules returns the documented error and invalidates the captures that it concerns: their
// streams refuse work, and cuStreamEndCapture returns no graph. All functions require Global().
#pragma once

#include <cuda.h>

#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "driver/graph_objects.h"

namespace emulator {

// One capture sequence: from cuStreamBeginCapture to cuStreamEndCapture.
struct Capture {
  unsigned long long id = 0;
  CUgraph graph = nullptr;
  bool owns_graph = false;  // cuStreamBeginCapture has made it
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;  // that has begun it
  CUstream origin = nullptr;
  std::set<CUstream> streams;         // that have joined, with the origin
  std::vector<CUgraphNode> orphaned;  // where streams stood that were destroyed meanwhile
  bool invalid = false;
  bool ended = false;
};
using CapturePointer = std::shared_ptr<Capture>;

// Adds a node to the graph that captures the stream.
CUresult CaptureAction(CUstream stream, ActionPointer action);
CUresult CaptureChildGraph(CUstream stream, const ExecutableGraph& graph);

// CUDA_SUCCESS, or STREAM_CAPTURE_IMPLICIT for the legacy default stream while a stream of its context that it would
// wait for is capturing.
CUresult CheckLegacyStream(CUstream stream, const char* call);

// CUDA_SUCCESS, or STREAM_CAPTURE_UNSUPPORTED if the stream, or a stream of the context, is capturing.
CUresult CheckNotCapturing(CUstream stream, const char* call);
CUresult CheckNothingCaptured(CUcontext context, const char* call);

// For calls that are unsafe during a capture, like cuMemAlloc: CUDA_SUCCESS, or STREAM_CAPTURE_UNSUPPORTED if this
// thread captures, or another one in global mode.
CUresult CheckSafe(const char* call);

// CUDA_SUCCESS, or CAPTURED_EVENT for an event that was last recorded in a capture.
CUresult CheckNotCaptured(CUevent event, const char* call);

// Records an event in a capturing stream, or makes a stream wait for an event. `captured` says that this was a matter
// of a capture; else the caller has to do it, if the result is CUDA_SUCCESS.
CUresult CaptureRecord(CUstream stream, CUevent event, unsigned flags, bool* captured);
CUresult CaptureWait(CUstream stream, CUevent event, unsigned flags, bool* captured);

// Before the stream is destroyed.
void LeaveCapture(CUstream stream);

}  // namespace emulator
