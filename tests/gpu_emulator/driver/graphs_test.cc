// Graphs and their executables: structure, order, updates, life.
#include <cuda.h>
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "driver/graph_fixture.h"

using emulator::GraphFixture;

namespace {

// Appends a number to a list that the host reads. Host nodes of one graph may run at the same time.
struct Trace {
  std::mutex mutex;
  std::vector<int> order;
};
struct Step {
  Trace* trace;
  int number;
};
void Append(void* data) {
  const Step* step = static_cast<Step*>(data);
  const std::lock_guard<std::mutex> lock(step->trace->mutex);
  step->trace->order.push_back(step->number);
}

CUgraphNode AddHost(CUgraph graph, Step* step, const std::vector<CUgraphNode>& on = {}) {
  CUgraphNode node = nullptr;
  const CUDA_HOST_NODE_PARAMS p{Append, step};
  REQUIRE(cuGraphAddHostNode(&node, graph, on.data(), on.size(), &p) == CUDA_SUCCESS);
  return node;
}

CUgraphNode AddMemoryOperation(GraphFixture* gpu, CUgraph graph, bool wait, size_t word, uint32_t value,
                               const std::vector<CUgraphNode>& on = {}) {
  CUstreamBatchMemOpParams op{};
  if (wait) {
    op.waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_32, gpu->Word(word), {value}, CU_STREAM_WAIT_VALUE_EQ, 0};
  } else {
    op.writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, gpu->Word(word), {value}, 0, 0};
  }
  const CUDA_BATCH_MEM_OP_NODE_PARAMS batch{gpu->context, 1, &op, 0};
  CUgraphNode node = nullptr;
  REQUIRE(cuGraphAddBatchMemOpNode(&node, graph, on.data(), on.size(), &batch) == CUDA_SUCCESS);
  return node;
}

// True if `misuse` ends a process by abort(). It runs before this process has a device or threads of its own.
bool Aborts(const std::function<void()>& misuse) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGABRT, SIG_DFL);
    misuse();
    _exit(0);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

}  // namespace

TEST_CASE("What was destroyed cannot be used") {  // first: it forks
  CHECK(Aborts([] {
    GraphFixture gpu;
    CUgraphExec exec = gpu.Instantiate();
    cuGraphExecDestroy(exec);
    cuGraphLaunch(exec, gpu.stream);
  }));
  CHECK(Aborts([] {
    GraphFixture gpu;
    CUgraph graph = nullptr;
    cuGraphCreate(&graph, 0);
    cuGraphDestroy(graph);
    cuGraphDestroy(graph);
  }));
  CHECK(Aborts([] {
    GraphFixture gpu;
    const CUgraphNode node = gpu.AddFill(gpu.graph, 0, 1);
    cuGraphDestroyNode(node);
    CUgraphNodeType type;
    cuGraphNodeGetType(node, &type);
  }));
  CHECK(!Aborts([] { GraphFixture gpu; }));
}

TEST_CASE("Nodes run after what they depend on, in an order that is not always that of creation") {
  GraphFixture gpu;
  constexpr int kNodes = 6;
  Trace trace;
  std::vector<Step> steps;
  for (int i = 0; i <= kNodes; ++i) steps.push_back({&trace, i});
  std::vector<CUgraphNode> nodes;
  for (int i = 0; i < kNodes; ++i) nodes.push_back(AddHost(gpu.graph, &steps[static_cast<size_t>(i)]));
  AddHost(gpu.graph, &steps[kNodes], nodes);
  const CUgraphExec exec = gpu.Instantiate();
  std::set<std::vector<int>> orders;
  for (int launch = 0; launch < 20; ++launch) {
    trace.order.clear();
    gpu.Launch(exec);
    REQUIRE(trace.order.size() == kNodes + 1);
    CHECK(trace.order.back() == kNodes);
    orders.insert(trace.order);
  }
  CHECK(orders.size() > 1);
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
}

TEST_CASE("Independent branches run at the same time, also those of child graphs") {
  GraphFixture gpu;
  // Each branch waits for what the other one writes.
  CUgraph child = nullptr;
  REQUIRE(cuGraphCreate(&child, 0) == CUDA_SUCCESS);
  const CUgraphNode written = AddMemoryOperation(&gpu, child, false, 0, 1);
  AddMemoryOperation(&gpu, child, true, 1, 1, {written});
  CUgraphNode node = nullptr;
  REQUIRE(cuGraphAddChildGraphNode(&node, gpu.graph, nullptr, 0, child) == CUDA_SUCCESS);
  const CUgraphNode waited = AddMemoryOperation(&gpu, gpu.graph, true, 0, 1);
  AddMemoryOperation(&gpu, gpu.graph, false, 1, 1, {waited});
  const CUgraphExec exec = gpu.Instantiate();
  for (int launch = 0; launch < 10; ++launch) {
    gpu.Write(0, 0);
    gpu.Write(1, 0);
    gpu.Launch(exec);
  }
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(child) == CUDA_SUCCESS);
}

TEST_CASE("Launches of one executable run one after the other, in whatever streams") {
  GraphFixture gpu;
  const CUgraphNode first = gpu.AddKernel(gpu.graph, "count_up", {gpu.Word(0)});
  AddMemoryOperation(&gpu, gpu.graph, true, 1, 1, {first});
  const CUgraphExec exec = gpu.Instantiate();
  CUstream other = nullptr;
  REQUIRE(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  REQUIRE(cuGraphLaunch(exec, gpu.stream) == CUDA_SUCCESS);
  REQUIRE(cuGraphLaunch(exec, other) == CUDA_SUCCESS);
  usleep(20000);  // no assertion depends on it: it gives the second launch the time to be wrong
  uint32_t launches = 9;
  REQUIRE(cuMemcpyDtoH(&launches, gpu.Word(0), 4) == CUDA_SUCCESS);
  CHECK(launches <= 1);
  gpu.Write(1, 1);
  CHECK(cuStreamSynchronize(other) == CUDA_SUCCESS);
  CHECK(gpu.Read(0) == 2);
  CHECK(cuStreamDestroy(other) == CUDA_SUCCESS);
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
}

TEST_CASE("A launch keeps the parameters that it had, and the graph its own") {
  GraphFixture gpu;
  const CUgraphNode wait = AddMemoryOperation(&gpu, gpu.graph, true, 1, 1);
  const CUgraphNode fill = gpu.AddFill(gpu.graph, 0, 5, {wait});
  const CUgraphExec exec = gpu.Instantiate();
  REQUIRE(cuGraphLaunch(exec, gpu.stream) == CUDA_SUCCESS);
  const CUDA_MEMSET_NODE_PARAMS later = GraphFixture::Fill(gpu.Word(0), 6);
  REQUIRE(cuGraphExecMemsetNodeSetParams(exec, fill, &later, gpu.context) == CUDA_SUCCESS);
  gpu.Write(1, 1);
  CHECK(gpu.Read(0) == 5);
  gpu.Launch(exec);
  CHECK(gpu.Read(0) == 6);
  const CUgraphExec second = gpu.Instantiate();
  gpu.Launch(second);
  CHECK(gpu.Read(0) == 5);
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
  CHECK(cuGraphExecDestroy(second) == CUDA_SUCCESS);
}

TEST_CASE("An update keeps kinds, places and topology") {
  GraphFixture gpu;
  const CUgraphNode fill = gpu.AddFill(gpu.graph, 0, 5);
  const CUgraphNode kernel = gpu.AddKernel(gpu.graph, "count_up", {gpu.Word(1)}, {fill});
  const CUgraphExec exec = gpu.Instantiate();
  CUDA_MEMSET_NODE_PARAMS p = GraphFixture::Fill(gpu.Word(0), 6);
  CHECK(cuGraphExecMemsetNodeSetParams(exec, kernel, &p, gpu.context) == CUDA_ERROR_INVALID_VALUE);  // of another kind
  p.height = 2;
  p.pitch = 4;
  CHECK(cuGraphExecMemsetNodeSetParams(exec, fill, &p, gpu.context) == CUDA_ERROR_INVALID_VALUE);
  void* pinned = nullptr;
  REQUIRE(cuMemAllocHost(&pinned, 4) == CUDA_SUCCESS);
  p = GraphFixture::Fill(reinterpret_cast<CUdeviceptr>(pinned), 6);
  CHECK(cuGraphExecMemsetNodeSetParams(exec, fill, &p, gpu.context) == CUDA_ERROR_INVALID_VALUE);  // other memory
  CHECK(cuMemFreeHost(pinned) == CUDA_SUCCESS);
  const CUgraphNode added_later = gpu.AddFill(gpu.graph, 2, 1);
  p = GraphFixture::Fill(gpu.Word(0), 6);
  CHECK(cuGraphExecMemsetNodeSetParams(exec, added_later, &p, gpu.context) == CUDA_ERROR_INVALID_VALUE);

  CUgraphExecUpdateResultInfo info{};
  CHECK(cuGraphExecUpdate(exec, gpu.graph, &info) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  CHECK(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  CUgraph other = nullptr;
  REQUIRE(cuGraphCreate(&other, 0) == CUDA_SUCCESS);
  gpu.AddFill(other, 0, 8);
  gpu.AddKernel(other, "count_up", {gpu.Word(3)});
  CHECK(cuGraphExecUpdate(exec, other, &info) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);  // an edge is missing
  CHECK(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  CHECK(cuGraphDestroy(other) == CUDA_SUCCESS);
  REQUIRE(cuGraphCreate(&other, 0) == CUDA_SUCCESS);
  gpu.AddFill(other, 3, 1, {gpu.AddFill(other, 0, 8)});
  CHECK(cuGraphExecUpdate(exec, other, &info) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  CHECK(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
  CHECK(cuGraphDestroy(other) == CUDA_SUCCESS);
  REQUIRE(cuGraphCreate(&other, 0) == CUDA_SUCCESS);
  gpu.AddKernel(other, "count_up", {gpu.Word(3)}, {gpu.AddFill(other, 0, 8)});
  CHECK(cuGraphExecUpdate(exec, other, &info) == CUDA_SUCCESS);
  gpu.Launch(exec);
  CHECK(gpu.Read(0) == 8);
  CHECK(gpu.Read(1) == 0);
  CHECK(gpu.Read(3) == 1);
  CHECK(cuGraphDestroy(other) == CUDA_SUCCESS);
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
}

TEST_CASE("A moved child graph keeps its nodes, by which an executable of the parent is updated") {
  GraphFixture gpu;
  CUgraph child = nullptr;
  REQUIRE(cuGraphCreate(&child, 0) == CUDA_SUCCESS);
  const CUgraphNode fill = gpu.AddFill(child, 0, 5);
  CUgraphNodeParams p{};
  p.type = CU_GRAPH_NODE_TYPE_GRAPH;
  p.graph.graph = child;
  p.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
  CUgraphNode node = nullptr;
  REQUIRE(cuGraphAddNode(&node, gpu.graph, nullptr, nullptr, 0, &p) == CUDA_SUCCESS);
  CHECK(cuGraphAddNode(&node, gpu.graph, nullptr, nullptr, 0, &p) == CUDA_ERROR_INVALID_VALUE);  // it has an owner
  CHECK(cuGraphDestroy(child) == CUDA_ERROR_INVALID_VALUE);
  CUgraphExec exec = nullptr;
  CHECK(cuGraphInstantiate(&exec, child, 0) == CUDA_ERROR_INVALID_VALUE);
  exec = gpu.Instantiate();
  const CUDA_MEMSET_NODE_PARAMS later = GraphFixture::Fill(gpu.Word(0), 6);
  CHECK(cuGraphExecMemsetNodeSetParams(exec, fill, &later, gpu.context) == CUDA_SUCCESS);
  gpu.Launch(exec);
  CHECK(gpu.Read(0) == 6);
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
}

TEST_CASE("A cloned child graph is updated as a whole") {
  GraphFixture gpu;
  CUgraph child = nullptr, wrong = nullptr;
  REQUIRE(cuGraphCreate(&child, 0) == CUDA_SUCCESS);
  REQUIRE(cuGraphCreate(&wrong, 0) == CUDA_SUCCESS);
  const CUgraphNode fill = gpu.AddFill(child, 0, 5);
  CUgraphNode node = nullptr;
  REQUIRE(cuGraphAddChildGraphNode(&node, gpu.graph, nullptr, 0, child) == CUDA_SUCCESS);
  const CUgraphExec exec = gpu.Instantiate();
  const CUDA_MEMSET_NODE_PARAMS later = GraphFixture::Fill(gpu.Word(0), 6);
  // The clone has nodes of its own.
  CHECK(cuGraphExecMemsetNodeSetParams(exec, fill, &later, gpu.context) == CUDA_ERROR_INVALID_VALUE);
  gpu.AddKernel(wrong, "count_up", {gpu.Word(0)});
  CHECK(cuGraphExecChildGraphNodeSetParams(exec, node, wrong) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuGraphMemsetNodeSetParams(fill, &later) == CUDA_SUCCESS);
  CHECK(cuGraphExecChildGraphNodeSetParams(exec, node, child) == CUDA_SUCCESS);
  gpu.Launch(exec);
  CHECK(gpu.Read(0) == 6);
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(child) == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(wrong) == CUDA_SUCCESS);
}

TEST_CASE("Instantiation refuses circles, empty child graphs and unknown flags") {
  GraphFixture gpu;
  const CUgraphNode a = gpu.AddFill(gpu.graph, 0, 1), b = gpu.AddFill(gpu.graph, 1, 1, {a});
  CUgraphExec exec = nullptr;
  CHECK(cuGraphInstantiate(&exec, gpu.graph, 1ull << 40) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuGraphAddDependencies(gpu.graph, &b, &a, nullptr, 1) == CUDA_SUCCESS);
  CHECK(cuGraphAddDependencies(gpu.graph, &b, &a, nullptr, 1) == CUDA_ERROR_INVALID_VALUE);  // it is there
  CUDA_GRAPH_INSTANTIATE_PARAMS p{};
  CHECK(cuGraphInstantiateWithParams(&exec, gpu.graph, &p) == CUDA_ERROR_INVALID_VALUE);
  CHECK(p.result_out == CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
  CHECK(p.hErrNode_out != nullptr);
  REQUIRE(cuGraphDestroyNode(b) == CUDA_SUCCESS);
  CUgraph child = nullptr;
  REQUIRE(cuGraphCreate(&child, 0) == CUDA_SUCCESS);
  CUgraphNode node = nullptr;
  REQUIRE(cuGraphAddChildGraphNode(&node, gpu.graph, nullptr, 0, child) == CUDA_SUCCESS);
  CHECK(cuGraphInstantiate(&exec, gpu.graph, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphDestroy(child) == CUDA_SUCCESS);
}

TEST_CASE("Dependencies are nodes of the graph, each once; edges of programmatic launches join kernels") {
  GraphFixture gpu;
  CUgraph other = nullptr;
  REQUIRE(cuGraphCreate(&other, 0) == CUDA_SUCCESS);
  const CUgraphNode foreign = gpu.AddFill(other, 0, 1), own = gpu.AddFill(gpu.graph, 0, 1);
  CUgraphNode node = nullptr;
  CHECK(cuGraphAddEmptyNode(&node, gpu.graph, &foreign, 1) == CUDA_ERROR_INVALID_VALUE);
  const CUgraphNode twice[] = {own, own};
  CHECK(cuGraphAddEmptyNode(&node, gpu.graph, twice, 2) == CUDA_ERROR_INVALID_VALUE);
  CUgraphNodeParams empty{};
  empty.type = CU_GRAPH_NODE_TYPE_EMPTY;
  CUgraphEdgeData edge{};
  edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  CHECK(cuGraphAddNode(&node, gpu.graph, &own, &edge, 1, &empty) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphDestroy(other) == CUDA_SUCCESS);
}

TEST_CASE("Copies of several rows keep to their pitches") {
  GraphFixture gpu;
  for (uint32_t i = 0; i < 8; ++i) gpu.Write(i, i + 1);
  CUDA_MEMCPY3D p{};
  p.srcMemoryType = p.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  p.srcDevice = gpu.Word(0);
  p.dstDevice = gpu.Word(16);
  p.srcPitch = 16;
  p.dstPitch = 8;
  p.WidthInBytes = 8;
  p.Height = 2;
  p.Depth = 1;
  CUgraphNode node = nullptr;
  REQUIRE(cuGraphAddMemcpyNode(&node, gpu.graph, nullptr, 0, &p, gpu.context) == CUDA_SUCCESS);
  const CUgraphExec exec = gpu.Instantiate();
  gpu.Launch(exec);
  for (uint32_t i = 0; i < 4; ++i) CHECK(gpu.Read(16 + i) == (i < 2 ? i + 1 : i + 3));
  CHECK(gpu.Read(20) == 0);
  p.Height = 1;
  CHECK(cuGraphExecMemcpyNodeSetParams(exec, node, &p, gpu.context) == CUDA_ERROR_INVALID_VALUE);  // was of two rows
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
}

TEST_CASE("A disabled node does nothing until it is enabled") {
  GraphFixture gpu;
  const CUgraphNode node = gpu.AddKernel(gpu.graph, "count_up", {gpu.Word(0)});
  const CUgraphExec exec = gpu.Instantiate();
  CHECK(cuGraphNodeSetEnabled(exec, node, 0) == CUDA_SUCCESS);
  gpu.Launch(exec);
  CHECK(gpu.Read(0) == 0);
  CHECK(cuGraphNodeSetEnabled(exec, node, 1) == CUDA_SUCCESS);
  gpu.Launch(exec);
  CHECK(gpu.Read(0) == 1);
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
}
