#include "driver/capture.h"

#include <cuda.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "driver/contexts.h"
#include "driver/graph_actions.h"
#include "driver/graphs.h"
#include "driver/log.h"
#include "driver/objects.h"
#include "driver/streams.h"

namespace emulator {
namespace {

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

std::set<Capture*>& Captures() {
  static auto* captures = new std::set<Capture*>;
  return *captures;
}

void Invalidate(Capture* capture, const char* call, const char* why) {
  if (!capture->invalid) Complain("%s invalidates a stream capture: %s", call, why);
  capture->invalid = true;
}

void AddDependencies(CUstream stream, const std::vector<CUgraphNode>& nodes) {
  for (const CUgraphNode node : nodes) {
    if (std::find(stream->tail.begin(), stream->tail.end(), node) == stream->tail.end()) stream->tail.push_back(node);
  }
}

void Join(CUstream stream, const CapturePointer& capture) {
  stream->capture = capture;
  stream->tail.clear();
  capture->streams.insert(stream);
}

void End(const CapturePointer& capture) {
  for (CUstream stream : capture->streams) {
    stream->capture = nullptr;
    stream->tail.clear();
  }
  capture->streams.clear();
  capture->ended = true;
  --capture->graph->captures;
  Captures().erase(capture.get());
}

// The nodes from which `nodes` can be reached, and they themselves.
std::set<CUgraphNode> WithAncestors(std::vector<CUgraphNode> nodes) {
  std::set<CUgraphNode> found;
  while (!nodes.empty()) {
    const CUgraphNode node = nodes.back();
    nodes.pop_back();
    if (found.insert(node).second) nodes.insert(nodes.end(), node->dependencies.begin(), node->dependencies.end());
  }
  return found;
}

bool IsJoined(const Capture& capture) {
  const std::set<CUgraphNode> joined = WithAncestors(capture.origin->tail);
  const auto is_joined = [&joined](const CUgraphNode node) { return joined.count(node) != 0; };
  return std::all_of(capture.orphaned.begin(), capture.orphaned.end(), is_joined) &&
         std::all_of(capture.streams.begin(), capture.streams.end(),
                     [&](CUstream stream) { return std::all_of(stream->tail.begin(), stream->tail.end(), is_joined); });
}

bool IsLegacy(CUstream stream) { return stream == &stream->context->null_stream; }

CUresult Begin(CUstream handle, CUgraph graph, std::vector<CUgraphNode> tail, CUstreamCaptureMode mode,
               const char* call) {
  if (mode != CU_STREAM_CAPTURE_MODE_GLOBAL && mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
      mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CUstream stream = nullptr;
  const CUresult result = ResolveFor(call, handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (IsLegacy(stream)) {
    Complain("%s: the legacy default stream cannot be captured", call);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  const auto capture = std::make_shared<Capture>();
  capture->id = NextId();
  capture->owns_graph = graph == nullptr;
  capture->graph = graph == nullptr ? new CUgraph_st : graph;
  ++capture->graph->captures;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream;
  Join(stream, capture);
  stream->tail = std::move(tail);
  Captures().insert(capture.get());
  return CUDA_SUCCESS;
}

CUresult Info(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph, const CUgraphNode** on,
              size_t* count, const char* call) {
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUstream stream = nullptr;
  const CUresult result = ResolveFor(call, handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (IsLegacy(stream)) {
    // Only asking does not invalidate.
    for (CUstream other : stream->context->streams) {
      if (other->capture != nullptr && (other->flags & CU_STREAM_NON_BLOCKING) == 0) {
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
      }
    }
  }
  if (stream->capture == nullptr) {
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  }
  const Capture& capture = *stream->capture;
  *status = capture.invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (capture.invalid) return CUDA_SUCCESS;
  if (id != nullptr) *id = capture.id;
  if (graph != nullptr) *graph = capture.graph;
  if (on != nullptr) *on = stream->tail.data();
  if (count != nullptr) *count = stream->tail.size();
  return CUDA_SUCCESS;
}

// CUDA_SUCCESS if the capture of the stream takes nodes of this type.
CUresult CheckCaptured(CUstream stream, CUgraphNodeType type) {
  Capture* capture = stream->capture.get();
  if (capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
    Invalidate(capture, "refused: memory of graphs", "the emulated driver has no nodes that allocate or free");
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (!MayBeConditional(type) && IsInConditionalBody(capture->graph)) {
    Invalidate(capture, "work on a stream",
               "the body of a conditional node holds no memory operation, host function or event");
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult CaptureAction(CUstream stream, ActionPointer action) {
  const CUresult result = CheckCaptured(stream, action->type);
  if (result != CUDA_SUCCESS) return result;
  stream->tail = {AddNode(stream->capture->graph, std::move(action), stream->tail)};
  return CUDA_SUCCESS;
}

CUresult CaptureChildGraph(CUstream stream, const ExecutableGraph& graph) {
  std::unique_ptr<CUgraph_st> child = GraphOf(graph);
  const CUgraphNode refused = IsInConditionalBody(stream->capture->graph) ? FindUnconditional(*child) : nullptr;
  if (HasConditionals(*child) || refused != nullptr) {
    Invalidate(stream->capture.get(), "cuGraphLaunch", "the graph's nodes cannot be part of the captured graph");
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  const CUresult result = CaptureAction(stream, PlainAction(CU_GRAPH_NODE_TYPE_GRAPH, nullptr));
  if (result != CUDA_SUCCESS) return result;
  const CUgraphNode node = stream->tail.front();
  child->parent = node;
  node->child = std::move(child);
  return CUDA_SUCCESS;
}

CUresult CheckLegacyStream(CUstream stream, const char* call) {
  if (!IsLegacy(stream)) return CUDA_SUCCESS;
  bool found = false;
  for (CUstream other : stream->context->streams) {
    if (other->capture == nullptr || (other->flags & CU_STREAM_NON_BLOCKING) != 0) continue;
    Invalidate(other->capture.get(), call, "the legacy default stream would wait for a stream that is capturing");
    found = true;
  }
  return found ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

CUresult CheckNotCapturing(CUstream stream, const char* call) {
  if (stream->capture == nullptr) return CheckLegacyStream(stream, call);
  Invalidate(stream->capture.get(), call, "the stream is capturing");
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult CheckNothingCaptured(CUcontext context, const char* call) {
  bool found = false;
  for (CUstream stream : context->streams) {
    if (stream->capture == nullptr) continue;
    Invalidate(stream->capture.get(), call, "a stream of the context is capturing");
    found = true;
  }
  return found ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult CheckSafe(const char* call) {
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  bool found = false;
  for (Capture* capture : Captures()) {
    const bool own = capture->thread == std::this_thread::get_id() && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    const bool other = capture->thread != std::this_thread::get_id() &&
                       capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!own && !other) continue;
    Invalidate(capture, call, "the call is unsafe during a capture");
    found = true;
  }
  return found ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult CheckNotCaptured(CUevent event, const char* call) {
  if (event->capture == nullptr) return CUDA_SUCCESS;
  if (!event->capture->ended) Invalidate(event->capture.get(), call, "the event was recorded in it");
  return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult CaptureRecord(CUstream stream, CUevent event, unsigned flags, bool* captured) {
  *captured = stream->capture != nullptr;
  if (stream->capture == nullptr) {
    if ((flags & CU_EVENT_RECORD_EXTERNAL) != 0) return CUDA_ERROR_INVALID_VALUE;
    event->capture = nullptr;
    event->capture_nodes.clear();
    return CUDA_SUCCESS;
  }
  if (stream->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if ((flags & CU_EVENT_RECORD_EXTERNAL) != 0) return CaptureAction(stream, RecordAction(event));
  event->capture = stream->capture;
  event->capture_nodes = stream->tail;
  return CUDA_SUCCESS;
}

CUresult CaptureWait(CUstream stream, CUevent event, unsigned flags, bool* captured) {
  *captured = true;
  if ((flags & CU_EVENT_WAIT_EXTERNAL) != 0) {
    if (stream->capture == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return CaptureAction(stream, WaitAction(event));
  }
  if (event->capture == nullptr) {
    if (stream->capture == nullptr) {
      *captured = false;
      return CUDA_SUCCESS;
    }
    if (stream->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    const std::lock_guard<std::mutex> lock(event->mutex);
    if (event->record == nullptr) return CUDA_SUCCESS;  // never recorded: nothing to wait for
    Invalidate(stream->capture.get(), "cuStreamWaitEvent", "the event was recorded outside of the capture");
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (event->capture->ended) {
    if (stream->capture != nullptr) {
      Invalidate(stream->capture.get(), "cuStreamWaitEvent", "the event was recorded in a capture that has ended");
    }
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  if (event->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream->capture != nullptr && stream->capture != event->capture) {
    Invalidate(stream->capture.get(), "cuStreamWaitEvent", "it would merge two captures");
    Invalidate(event->capture.get(), "cuStreamWaitEvent", "it would merge two captures");
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (stream->capture == nullptr) {
    if (IsLegacy(stream)) {
      Invalidate(event->capture.get(), "cuStreamWaitEvent", "the legacy default stream cannot join a capture");
      return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    Join(stream, event->capture);
  }
  AddDependencies(stream, event->capture_nodes);
  return CUDA_SUCCESS;
}

void LeaveCapture(CUstream stream) {
  if (stream->capture == nullptr) return;
  const CapturePointer capture = stream->capture;
  if (stream == capture->origin) {
    Invalidate(capture.get(), "cuStreamDestroy", "the capture began on the stream");
    End(capture);
    if (capture->owns_graph) delete capture->graph;
    return;
  }
  capture->orphaned.insert(capture->orphaned.end(), stream->tail.begin(), stream->tail.end());
  capture->streams.erase(stream);
}

extern "C" {

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  const Lock lock(Global());
  return Begin(stream, nullptr, {}, mode, "cuStreamBeginCapture");
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* on,
                                     const CUgraphEdgeData* edges, size_t count, CUstreamCaptureMode mode) {
  constexpr const char* kCall = "cuStreamBeginCaptureToGraph";
  const Lock lock(Global());
  if (!IsGraph(graph, kCall)) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = CheckDependencies(graph, on, edges, count, CU_GRAPH_NODE_TYPE_KERNEL, kCall);
  return result != CUDA_SUCCESS ? result : Begin(stream, graph, List(on, count), mode, kCall);
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  const Lock lock(Global());
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *graph = nullptr;
  CUstream stream = nullptr;
  const CUresult result = ResolveFor("cuStreamEndCapture", handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  const CapturePointer capture = stream->capture;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream) {
    Invalidate(capture.get(), "cuStreamEndCapture", "the capture began on another stream");
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != std::this_thread::get_id()) {
    Invalidate(capture.get(), "cuStreamEndCapture", "the capture began in another thread");
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  const bool joined = IsJoined(*capture);
  End(capture);
  if (!capture->invalid && joined) {
    *graph = capture->graph;
    return CUDA_SUCCESS;
  }
  if (capture->owns_graph) delete capture->graph;
  if (capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  Complain("cuStreamEndCapture: a stream that has joined the capture has work that the first stream does not wait for");
  return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  const Lock lock(Global());
  return Info(stream, status, nullptr, nullptr, nullptr, nullptr, "cuStreamIsCapturing");
}
CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                   const CUgraphNode** on, size_t* count) {
  const Lock lock(Global());
  return Info(stream, status, id, graph, on, count, "cuStreamGetCaptureInfo");
}
CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                   const CUgraphNode** on, const CUgraphEdgeData** edges, size_t* count) {
  const Lock lock(Global());
  if (edges != nullptr) {
    if (on == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUstream stream_object = nullptr;
    if (ResolveFor("cuStreamGetCaptureInfo", stream, &stream_object) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_HANDLE;
    static thread_local std::vector<CUgraphEdgeData> ordinary;
    ordinary.resize(stream_object->tail.size());
    *edges = ordinary.data();
  }
  return Info(stream, status, id, graph, on, count, "cuStreamGetCaptureInfo");
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode* on, const CUgraphEdgeData* edges,
                                              size_t count, unsigned flags) {
  constexpr const char* kCall = "cuStreamUpdateCaptureDependencies";
  const Lock lock(Global());
  CUstream stream = nullptr;
  const CUresult resolved = ResolveFor(kCall, handle, &stream);
  if (resolved != CUDA_SUCCESS) return resolved;
  if (stream->capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (flags != CU_STREAM_ADD_CAPTURE_DEPENDENCIES && flags != CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUresult result = CheckDependencies(stream->capture->graph, on, edges, count, CU_GRAPH_NODE_TYPE_KERNEL, kCall);
  if (result != CUDA_SUCCESS) return result;
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) stream->tail.clear();
  AddDependencies(stream, List(on, count));
  return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::swap(*mode, thread_mode);
  return CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace emulator
