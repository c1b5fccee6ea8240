// Capture of streams into graphs.
#include <cuda.h>

#include "driver/contexts.h"
#include "driver/graphs.h"
#include "driver/memory.h"
#include "driver/objects.h"
#include "driver/streams.h"

namespace emulator {

extern "C" {

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode) {
  CUstream stream = Resolve(handle);
  const Lock lock(Global());
  stream->capture = new CUgraph_st;
  stream->capture_origin = true;
  stream->capture_id = NextId();
  stream->tail.clear();
  return CUDA_SUCCESS;
}
CUresult cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph, const CUgraphNode* on, const CUgraphEdgeData*,
                                     size_t count, CUstreamCaptureMode) {
  CUstream stream = Resolve(handle);
  const Lock lock(Global());
  stream->capture = graph;
  stream->capture_origin = true;
  stream->capture_id = NextId();
  stream->tail = List(on, count);
  return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  CUstream stream = Resolve(handle);
  const Lock lock(Global());
  *graph = stream->capture;
  for (CUstream other : DeviceOf(stream->device).primary.streams) {
    if (other->capture == stream->capture && other != stream) {
      other->capture = nullptr;
      other->tail.clear();
    }
  }
  stream->capture = nullptr;
  stream->tail.clear();
  return CUDA_SUCCESS;
}
CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  const Lock lock(Global());
  *status = Resolve(handle)->capture != nullptr ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode*) { return CUDA_SUCCESS; }

}  // extern "C"

}  // namespace emulator
