// Stream capture: what becomes of work, and which calls it forbids.
#include <cuda.h>
#include <doctest/doctest.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "driver/graph_fixture.h"

using emulator::GraphFixture;

namespace {

class CaptureFixture : public GraphFixture {
 public:
  CaptureFixture() {
    REQUIRE(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    REQUIRE(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
    REQUIRE(cuEventCreate(&second, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
  }
  ~CaptureFixture() {
    CHECK(cuEventDestroy(event) == CUDA_SUCCESS);
    CHECK(cuEventDestroy(second) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(other) == CUDA_SUCCESS);
    CHECK(cuStreamDestroy(other) == CUDA_SUCCESS);
  }

  void Begin(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) {
    REQUIRE(cuStreamBeginCapture(stream, mode) == CUDA_SUCCESS);
  }
  void FillAsync(size_t index, uint32_t value, CUstream on) {
    REQUIRE(cuMemsetD32Async(Word(index), value, 1, on) == CUDA_SUCCESS);
  }
  CUgraph End() {
    CUgraph captured = nullptr;
    REQUIRE(cuStreamEndCapture(stream, &captured) == CUDA_SUCCESS);
    return captured;
  }
  // The capture ends without a graph, and the stream works again.
  void EndInvalid() {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CHECK(cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS);
    CHECK(status == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    CHECK(cuMemsetD32Async(words, 1, 1, stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CUgraph captured = graph;
    CHECK(cuStreamEndCapture(stream, &captured) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK(captured == nullptr);
    CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  }
  static std::vector<CUgraphNodeType> Types(CUgraph of) {
    size_t count = 0;
    REQUIRE(cuGraphGetNodes(of, nullptr, &count) == CUDA_SUCCESS);
    std::vector<CUgraphNode> nodes(count);
    REQUIRE(cuGraphGetNodes(of, nodes.data(), &count) == CUDA_SUCCESS);
    std::vector<CUgraphNodeType> types(count);
    for (size_t i = 0; i < count; ++i) REQUIRE(cuGraphNodeGetType(nodes[i], &types[i]) == CUDA_SUCCESS);
    return types;
  }
  void LaunchAndDestroy(CUgraph captured) {
    CUgraphExec exec = nullptr;
    REQUIRE(cuGraphInstantiate(&exec, captured, 0) == CUDA_SUCCESS);
    Launch(exec);
    CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
    CHECK(cuGraphDestroy(captured) == CUDA_SUCCESS);
  }

  CUstream other = nullptr;
  CUevent event = nullptr, second = nullptr;
};

}  // namespace

TEST_CASE("Captured work does not run, becomes nodes of its kind, and runs in order when launched") {
  CaptureFixture gpu;
  gpu.Begin();
  gpu.FillAsync(0, 1, gpu.stream);
  CHECK(cuStreamWriteValue32(gpu.stream, gpu.Word(1), 7, 0) == CUDA_SUCCESS);
  CHECK(cuStreamWaitValue32(gpu.stream, gpu.Word(1), 7, CU_STREAM_WAIT_VALUE_EQ) == CUDA_SUCCESS);
  CUstreamBatchMemOpParams batch[2] = {};
  for (auto& op : batch) op.writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, gpu.Word(2), {3}, 0, 0};
  CHECK(cuStreamBatchMemOp(gpu.stream, 2, batch, 0) == CUDA_SUCCESS);
  int calls = 0;
  CHECK(cuLaunchHostFunc(gpu.stream, [](void* count) { ++*static_cast<int*>(count); }, &calls) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoDAsync(gpu.Word(3), gpu.Word(0), 4, gpu.stream) == CUDA_SUCCESS);
  CUgraph captured = gpu.End();
  CHECK(CaptureFixture::Types(captured) ==
        std::vector<CUgraphNodeType>{CU_GRAPH_NODE_TYPE_MEMSET, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                                     CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                                     CU_GRAPH_NODE_TYPE_HOST, CU_GRAPH_NODE_TYPE_MEMCPY});
  CHECK(calls == 0);
  CHECK(gpu.Read(0) == 0);
  gpu.LaunchAndDestroy(captured);
  CHECK(calls == 1);
  CHECK(gpu.Read(2) == 3);
  CHECK(gpu.Read(3) == 1);
}

TEST_CASE("A stream joins a capture by an event and must be joined again") {
  CaptureFixture gpu;
  gpu.Begin();
  gpu.FillAsync(0, 1, gpu.stream);
  CHECK(cuEventRecord(gpu.event, gpu.stream) == CUDA_SUCCESS);
  CHECK(cuStreamWaitEvent(gpu.other, gpu.event, 0) == CUDA_SUCCESS);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CHECK(cuStreamIsCapturing(gpu.other, &status) == CUDA_SUCCESS);
  CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CHECK(cuMemcpyDtoDAsync(gpu.Word(1), gpu.Word(0), 4, gpu.other) == CUDA_SUCCESS);
  CHECK(cuEventRecord(gpu.second, gpu.other) == CUDA_SUCCESS);
  CHECK(cuStreamWaitEvent(gpu.stream, gpu.second, 0) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoDAsync(gpu.Word(2), gpu.Word(1), 4, gpu.stream) == CUDA_SUCCESS);
  gpu.LaunchAndDestroy(gpu.End());
  CHECK(gpu.Read(2) == 1);
  CHECK(cuStreamIsCapturing(gpu.other, &status) == CUDA_SUCCESS);
  CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_CASE("A stream that was not joined again makes the capture fail") {
  CaptureFixture gpu;
  gpu.Begin();
  CHECK(cuEventRecord(gpu.event, gpu.stream) == CUDA_SUCCESS);
  CHECK(cuStreamWaitEvent(gpu.other, gpu.event, 0) == CUDA_SUCCESS);
  gpu.FillAsync(0, 1, gpu.other);
  CHECK(cuEventRecord(gpu.second, gpu.other) == CUDA_SUCCESS);
  gpu.FillAsync(1, 1, gpu.other);  // after the event by which it is joined
  CHECK(cuStreamWaitEvent(gpu.stream, gpu.second, 0) == CUDA_SUCCESS);
  CUgraph captured = nullptr;
  CHECK(cuStreamEndCapture(gpu.other, &captured) == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  CHECK(cuStreamEndCapture(gpu.stream, &captured) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

  gpu.Begin();
  CHECK(cuEventRecord(gpu.event, gpu.stream) == CUDA_SUCCESS);
  CHECK(cuStreamWaitEvent(gpu.other, gpu.event, 0) == CUDA_SUCCESS);
  gpu.FillAsync(0, 1, gpu.other);
  CHECK(cuStreamEndCapture(gpu.stream, &captured) == CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  CHECK(captured == nullptr);
  CHECK(cuStreamEndCapture(gpu.stream, &captured) == CUDA_ERROR_ILLEGAL_STATE);
}

TEST_CASE("A capturing stream cannot be waited for or asked, and the capture is invalid then") {
  CaptureFixture gpu;
  gpu.Begin();
  CHECK(cuStreamSynchronize(gpu.stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  gpu.EndInvalid();
  gpu.Begin();
  CHECK(cuStreamQuery(gpu.stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  gpu.EndInvalid();
  gpu.Begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  CHECK(cuCtxSynchronize() == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  gpu.EndInvalid();
}

TEST_CASE("An event of a capture cannot be asked or waited for outside") {
  CaptureFixture gpu;
  const auto capture_event = [&] {
    gpu.Begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    REQUIRE(cuEventRecord(gpu.event, gpu.stream) == CUDA_SUCCESS);
  };
  capture_event();
  CHECK(cuEventQuery(gpu.event) == CUDA_ERROR_CAPTURED_EVENT);
  gpu.EndInvalid();
  capture_event();
  CHECK(cuEventSynchronize(gpu.event) == CUDA_ERROR_CAPTURED_EVENT);
  gpu.EndInvalid();
  capture_event();
  CHECK(cuGraphDestroy(gpu.End()) == CUDA_SUCCESS);
  CHECK(cuStreamWaitEvent(gpu.stream, gpu.event, 0) == CUDA_ERROR_CAPTURED_EVENT);
  CHECK(cuEventRecord(gpu.event, gpu.stream) == CUDA_SUCCESS);  // a new record, outside
  CHECK(cuEventSynchronize(gpu.event) == CUDA_SUCCESS);
}

TEST_CASE("A capture does not depend on work outside, and two captures do not merge") {
  CaptureFixture gpu;
  gpu.Begin();
  CHECK(cuStreamWaitEvent(gpu.stream, gpu.event, 0) == CUDA_SUCCESS);  // never recorded
  CHECK(cuEventRecord(gpu.event, gpu.other) == CUDA_SUCCESS);
  CHECK(cuStreamWaitEvent(gpu.stream, gpu.event, 0) == CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  gpu.EndInvalid();
  gpu.Begin();
  CHECK(cuEventRecord(gpu.event, gpu.stream) == CUDA_SUCCESS);
  CHECK(cuStreamBeginCapture(gpu.other, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
  CHECK(cuStreamWaitEvent(gpu.other, gpu.event, 0) == CUDA_ERROR_STREAM_CAPTURE_MERGE);
  CUgraph captured = nullptr;
  CHECK(cuStreamEndCapture(gpu.other, &captured) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  gpu.EndInvalid();
}

TEST_CASE("External events become nodes, and are nothing outside of a capture") {
  CaptureFixture gpu;
  CHECK(cuEventRecordWithFlags(gpu.event, gpu.stream, CU_EVENT_RECORD_EXTERNAL) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamWaitEvent(gpu.stream, gpu.event, CU_EVENT_WAIT_EXTERNAL) == CUDA_ERROR_INVALID_VALUE);
  gpu.Begin();
  CHECK(cuStreamWaitEvent(gpu.stream, gpu.event, CU_EVENT_WAIT_EXTERNAL) == CUDA_SUCCESS);
  CHECK(cuEventRecordWithFlags(gpu.second, gpu.stream, CU_EVENT_RECORD_EXTERNAL) == CUDA_SUCCESS);
  CUgraph captured = gpu.End();
  CHECK(CaptureFixture::Types(captured) ==
        std::vector<CUgraphNodeType>{CU_GRAPH_NODE_TYPE_WAIT_EVENT, CU_GRAPH_NODE_TYPE_EVENT_RECORD});
  gpu.LaunchAndDestroy(captured);
  CHECK(cuEventQuery(gpu.second) == CUDA_SUCCESS);
}

TEST_CASE("The legacy default stream is no part of captures, and forbidden beside those of blocking streams") {
  CaptureFixture gpu;
  CHECK(cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  gpu.Begin();
  CHECK(cuMemsetD32Async(gpu.Word(0), 4, 1, nullptr) == CUDA_SUCCESS);  // this one does not block
  CHECK(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(gpu.End()) == CUDA_SUCCESS);
  CUstream blocking = nullptr;
  REQUIRE(cuStreamCreate(&blocking, CU_STREAM_DEFAULT) == CUDA_SUCCESS);
  REQUIRE(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CHECK(cuStreamIsCapturing(nullptr, &status) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CHECK(cuStreamIsCapturing(blocking, &status) == CUDA_SUCCESS);
  CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);  // asking has not changed it
  CHECK(cuMemsetD32Async(gpu.Word(0), 5, 1, nullptr) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CUgraph captured = nullptr;
  CHECK(cuStreamEndCapture(blocking, &captured) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(cuStreamDestroy(blocking) == CUDA_SUCCESS);
}

TEST_CASE("Unsafe calls are forbidden by the mode of the capture and of the thread") {
  CaptureFixture gpu;
  CUdeviceptr pointer = 0;
  const auto allocate = [&] {
    const CUresult result = cuMemAlloc(&pointer, 16);
    if (result == CUDA_SUCCESS) CHECK(cuMemFree(pointer) == CUDA_SUCCESS);
    return result;
  };
  const auto elsewhere = [&] {
    CUresult result = CUDA_SUCCESS;
    std::thread([&] {
      CHECK(cuCtxSetCurrent(gpu.context) == CUDA_SUCCESS);
      result = allocate();
    }).join();
    return result;
  };
  gpu.Begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  CHECK(elsewhere() == CUDA_SUCCESS);
  CHECK(allocate() == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  gpu.EndInvalid();
  gpu.Begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
  CHECK(elsewhere() == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  gpu.EndInvalid();
  gpu.Begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  CHECK(allocate() == CUDA_SUCCESS);
  CHECK(elsewhere() == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(gpu.End()) == CUDA_SUCCESS);
  gpu.Begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  CHECK(cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
  CHECK(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
  CHECK(allocate() == CUDA_SUCCESS);
  CHECK(cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(gpu.End()) == CUDA_SUCCESS);
}

TEST_CASE("A capture ends in the thread that began it") {
  CaptureFixture gpu;
  gpu.Begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  std::thread([&] {
    CHECK(cuCtxSetCurrent(gpu.context) == CUDA_SUCCESS);
    CUgraph captured = nullptr;
    CHECK(cuStreamEndCapture(gpu.stream, &captured) == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  }).join();
  gpu.EndInvalid();
}

TEST_CASE("A capture into a conditional body refuses what the body refuses") {
  CaptureFixture gpu;
  const auto bodies =
      gpu.AddConditional(gpu.graph, gpu.Handle(gpu.graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT), CU_GRAPH_COND_TYPE_IF, 1);
  const auto begin = [&] {
    REQUIRE(cuStreamBeginCaptureToGraph(gpu.stream, bodies[0], nullptr, nullptr, 0,
                                        CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
  };
  begin();
  gpu.FillAsync(0, 6, gpu.stream);
  CUgraphExec exec = nullptr;
  CHECK(cuGraphInstantiate(&exec, bodies[0], 0) == CUDA_ERROR_INVALID_VALUE);
  CUgraph captured = nullptr;
  CHECK(cuStreamEndCapture(gpu.stream, &captured) == CUDA_SUCCESS);
  CHECK(captured == bodies[0]);
  begin();
  CHECK(cuStreamWriteValue32(gpu.stream, gpu.Word(1), 7, 0) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  gpu.EndInvalid();
  begin();
  CHECK(cuLaunchHostFunc(gpu.stream, [](void*) {}, nullptr) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  gpu.EndInvalid();
  begin();
  CHECK(cuEventRecordWithFlags(gpu.event, gpu.stream, CU_EVENT_RECORD_EXTERNAL) ==
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  gpu.EndInvalid();
  exec = gpu.Instantiate();
  gpu.Launch(exec);
  CHECK(gpu.Read(0) == 6);
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
}

TEST_CASE("A launch in a capturing stream is a child graph") {
  CaptureFixture gpu;
  gpu.AddFill(gpu.graph, 0, 3);
  const CUgraphExec exec = gpu.Instantiate();
  gpu.Begin();
  CHECK(cuGraphLaunch(exec, gpu.stream) == CUDA_SUCCESS);
  CUgraph captured = gpu.End();
  CHECK(CaptureFixture::Types(captured) == std::vector<CUgraphNodeType>{CU_GRAPH_NODE_TYPE_GRAPH});
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
  CHECK(gpu.Read(0) == 0);
  gpu.LaunchAndDestroy(captured);
  CHECK(gpu.Read(0) == 3);
}

TEST_CASE("A capture says what it has so far, and takes dependencies from outside") {
  CaptureFixture gpu;
  gpu.Begin();
  gpu.FillAsync(0, 1, gpu.stream);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUgraph captured = nullptr;
  const CUgraphNode* on = nullptr;
  const CUgraphEdgeData* edges = nullptr;
  size_t count = 0;
  REQUIRE(cuStreamGetCaptureInfo(gpu.stream, &status, &id, &captured, &on, &edges, &count) == CUDA_SUCCESS);
  CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CHECK(id != 0);
  REQUIRE(count == 1);
  CHECK(edges[0].type == 0);
  CUgraphNode node = gpu.AddFill(captured, 1, 2, {on[0]});
  CHECK(cuStreamUpdateCaptureDependencies(gpu.stream, &node, nullptr, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES) ==
        CUDA_SUCCESS);
  CHECK(cuMemcpyDtoDAsync(gpu.Word(2), gpu.Word(1), 4, gpu.stream) == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(captured) == CUDA_ERROR_INVALID_VALUE);  // while it is captured
  gpu.LaunchAndDestroy(gpu.End());
  CHECK(gpu.Read(2) == 2);
  CHECK(cuStreamUpdateCaptureDependencies(gpu.stream, &node, nullptr, 1, 0) == CUDA_ERROR_ILLEGAL_STATE);
}
