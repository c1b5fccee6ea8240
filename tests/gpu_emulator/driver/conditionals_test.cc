// Conditional nodes of graphs, and what their bodies may hold.
#include <cuda.h>
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "driver/graph_fixture.h"

using emulator::GraphFixture;

namespace {

// XLA's kernel sets up to eight handles by an index in memory.
CUgraphNode AddSetCase(GraphFixture* gpu, const std::vector<CUgraphConditionalHandle>& handles, size_t index_word) {
  std::vector<uint64_t> arguments(handles.begin(), handles.end());
  arguments.resize(8);
  arguments.insert(arguments.end(), {gpu->Word(index_word), 0, 0, handles.size(), 1});
  return gpu->AddKernel(gpu->graph, "set_case_condition", arguments);
}

}  // namespace

TEST_CASE("IF runs its body if the value is not zero, ELSE otherwise") {
  for (const unsigned value : {0u, 1u, 7u}) {
    GraphFixture gpu;
    const auto handle = gpu.Handle(gpu.graph, value, CU_GRAPH_COND_ASSIGN_DEFAULT);
    const auto bodies = gpu.AddConditional(gpu.graph, handle, CU_GRAPH_COND_TYPE_IF, 2);
    REQUIRE(bodies.size() == 2);
    gpu.AddFill(bodies[0], 0, 11);
    gpu.AddFill(bodies[1], 1, 22);
    const CUgraphExec exec = gpu.Instantiate();
    gpu.Launch(exec);
    CHECK(gpu.Read(0) == (value != 0 ? 11 : 0));
    CHECK(gpu.Read(1) == (value != 0 ? 0 : 22));
    CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
  }
}

TEST_CASE("SWITCH runs the body of the value, and none without such a body") {
  for (const unsigned value : {0u, 2u, 3u}) {
    GraphFixture gpu;
    const auto handle = gpu.Handle(gpu.graph, value, CU_GRAPH_COND_ASSIGN_DEFAULT);
    const auto bodies = gpu.AddConditional(gpu.graph, handle, CU_GRAPH_COND_TYPE_SWITCH, 3);
    REQUIRE(bodies.size() == 3);
    for (size_t i = 0; i < 3; ++i) gpu.AddFill(bodies[i], i, 5);
    const CUgraphExec exec = gpu.Instantiate();
    gpu.Launch(exec);
    for (unsigned i = 0; i < 3; ++i) CHECK(gpu.Read(i) == (i == value ? 5 : 0));
    CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
  }
}

TEST_CASE("WHILE runs its body until a kernel in it sets zero, in each launch") {
  GraphFixture gpu;
  const auto handle = gpu.Handle(gpu.graph, 0, 0);
  const CUgraphNode set = gpu.AddKernel(gpu.graph, "set_while_condition", {handle, gpu.Word(1)});
  const auto bodies = gpu.AddConditional(gpu.graph, handle, CU_GRAPH_COND_TYPE_WHILE, 1, {set});
  REQUIRE(bodies.size() == 1);
  const CUgraphNode up = gpu.AddKernel(bodies[0], "count_up", {gpu.Word(2)});
  const CUgraphNode down = gpu.AddKernel(bodies[0], "count_down", {gpu.Word(0), gpu.Word(1)}, {up});
  gpu.AddKernel(bodies[0], "set_while_condition", {handle, gpu.Word(1)}, {down});
  const CUgraphExec exec = gpu.Instantiate();
  for (const unsigned turns : {5u, 0u, 3u}) {
    gpu.Write(0, turns);
    gpu.Write(1, turns != 0);
    gpu.Write(2, 0);
    gpu.Launch(exec);
    CHECK(gpu.Read(2) == turns);
  }
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
}

TEST_CASE("XLA's set-condition kernels are found in PTX that nothing else could run, and only there") {
  GraphFixture gpu;
  CUmodule module = nullptr;
  // As XLA has it: the declaration lacks its semicolon.
  REQUIRE(cuModuleLoadData(&module, R"(
.version 4.0
.target sm_50
.address_size 64
.extern .func cudaGraphSetConditional
(
  .param .b64 cudaGraphSetConditional_param_0,
  .param .b32 cudaGraphSetConditional_param_1
)
.visible .entry set_while_condition(
  .param .u64 set_while_condition_param_0,
  .param .u64 set_while_condition_param_1
)
{
  ret;
}
)") == CUDA_SUCCESS);
  CUfunction function = nullptr;
  CHECK(cuModuleGetFunction(&function, module, "set_while_condition") == CUDA_SUCCESS);
  CHECK(function != nullptr);
  CHECK(cuModuleGetFunction(&function, module, "set_case_condition") == CUDA_ERROR_NOT_FOUND);
  CHECK(cuModuleUnload(module) == CUDA_SUCCESS);
}

TEST_CASE("XLA's set_case_condition chooses one of several IF nodes; the last for an index out of range") {
  for (const uint32_t index : {0u, 1u, 2u, 9u, ~0u}) {
    GraphFixture gpu;
    std::vector<CUgraphConditionalHandle> handles;
    for (int i = 0; i < 3; ++i) handles.push_back(gpu.Handle(gpu.graph, 0, 0));
    gpu.Write(8, index);
    const CUgraphNode set = AddSetCase(&gpu, handles, 8);
    for (size_t i = 0; i < 3; ++i) {
      const auto bodies = gpu.AddConditional(gpu.graph, handles[i], CU_GRAPH_COND_TYPE_IF, 1, {set});
      REQUIRE(bodies.size() == 1);
      gpu.AddFill(bodies[0], i, 1);
    }
    const CUgraphExec exec = gpu.Instantiate();
    gpu.Launch(exec);
    for (uint32_t i = 0; i < 3; ++i) CHECK(gpu.Read(i) == (i == (index < 3 ? index : 2) ? 1 : 0));
    CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
  }
}

TEST_CASE("A handle without a default has no value that a program could rely on") {
  GraphFixture gpu;
  const auto handle = gpu.Handle(gpu.graph, 0, 0);
  const auto bodies = gpu.AddConditional(gpu.graph, handle, CU_GRAPH_COND_TYPE_IF, 1);
  gpu.AddFill(bodies[0], 0, 1);
  const CUgraphExec exec = gpu.Instantiate();
  gpu.Launch(exec);
  CHECK(gpu.Read(0) == 1);  // nobody has set the handle: the emulator takes a value that is not zero
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
}

TEST_CASE("A body accepts kernels, fills, copies, empty nodes, child graphs and conditionals") {
  GraphFixture gpu;
  const auto bodies =
      gpu.AddConditional(gpu.graph, gpu.Handle(gpu.graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT), CU_GRAPH_COND_TYPE_IF, 1);
  CUgraphNode node = nullptr;
  CHECK(cuGraphAddEmptyNode(&node, bodies[0], nullptr, 0) == CUDA_SUCCESS);
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = gpu.Word(0);
  copy.dstDevice = gpu.Word(1);
  copy.WidthInBytes = 4;
  copy.Height = copy.Depth = 1;
  CHECK(cuGraphAddMemcpyNode(&node, bodies[0], nullptr, 0, &copy, gpu.context) == CUDA_SUCCESS);
  CUgraph child = nullptr;
  REQUIRE(cuGraphCreate(&child, 0) == CUDA_SUCCESS);
  gpu.AddFill(child, 2, 3);
  CHECK(cuGraphAddChildGraphNode(&node, bodies[0], nullptr, 0, child) == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(child) == CUDA_SUCCESS);
  const auto inner =
      gpu.AddConditional(bodies[0], gpu.Handle(bodies[0], 1, CU_GRAPH_COND_ASSIGN_DEFAULT), CU_GRAPH_COND_TYPE_IF, 1);
  REQUIRE(inner.size() == 1);
  gpu.AddKernel(inner[0], "count_up", {gpu.Word(3)});
  const CUgraphExec exec = gpu.Instantiate();
  gpu.Launch(exec);
  gpu.Launch(exec);
  CHECK(gpu.Read(2) == 3);
  CHECK(gpu.Read(3) == 2);
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
}

TEST_CASE("A body refuses memory operations, host functions and events, also in conditionals and child graphs below") {
  GraphFixture gpu;
  const auto outer =
      gpu.AddConditional(gpu.graph, gpu.Handle(gpu.graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT), CU_GRAPH_COND_TYPE_IF, 1);
  const auto inner =
      gpu.AddConditional(outer[0], gpu.Handle(gpu.graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT), CU_GRAPH_COND_TYPE_IF, 1);
  CUgraph moved = nullptr;
  REQUIRE(cuGraphCreate(&moved, 0) == CUDA_SUCCESS);
  CUgraphNodeParams child{};
  child.type = CU_GRAPH_NODE_TYPE_GRAPH;
  child.graph.graph = moved;
  child.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
  CUgraphNode node = nullptr;
  REQUIRE(cuGraphAddNode(&node, inner[0], nullptr, nullptr, 0, &child) == CUDA_SUCCESS);

  CUstreamBatchMemOpParams write{};
  write.writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, gpu.Word(0), {1}, 0, 0};
  const CUDA_BATCH_MEM_OP_NODE_PARAMS batch{gpu.context, 1, &write, 0};
  const CUDA_HOST_NODE_PARAMS host{[](void*) {}, nullptr};
  CUevent event = nullptr;
  REQUIRE(cuEventCreate(&event, 0) == CUDA_SUCCESS);
  for (CUgraph body : {outer[0], inner[0], moved}) {
    CHECK(cuGraphAddBatchMemOpNode(&node, body, nullptr, 0, &batch) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK(cuGraphAddHostNode(&node, body, nullptr, 0, &host) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK(cuGraphAddEventRecordNode(&node, body, nullptr, 0, event) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK(cuGraphAddEventWaitNode(&node, body, nullptr, 0, event) == CUDA_ERROR_NOT_SUPPORTED);
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    p.memOp = {gpu.context, 1, &write, 0};
    CHECK(cuGraphAddNode(&node, body, nullptr, nullptr, 0, &p) == CUDA_ERROR_NOT_SUPPORTED);
  }
  CHECK(cuGraphAddBatchMemOpNode(&node, gpu.graph, nullptr, 0, &batch) == CUDA_SUCCESS);  // allowed beside a body

  for (const bool move : {false, true}) {  // the same, arriving in a child graph
    CUgraph with_memop = nullptr;
    REQUIRE(cuGraphCreate(&with_memop, 0) == CUDA_SUCCESS);
    REQUIRE(cuGraphAddBatchMemOpNode(&node, with_memop, nullptr, 0, &batch) == CUDA_SUCCESS);
    child.graph.graph = with_memop;
    child.graph.ownership = move ? CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE : CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE;
    CHECK(cuGraphAddNode(&node, inner[0], nullptr, nullptr, 0, &child) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK(cuGraphDestroy(with_memop) == CUDA_SUCCESS);  // still its caller's
  }
  CHECK(cuEventDestroy(event) == CUDA_SUCCESS);
}

TEST_CASE("A graph with conditional nodes is no child, has no clone, and one executable at a time") {
  GraphFixture gpu;
  const auto handle = gpu.Handle(gpu.graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
  CHECK(gpu.AddConditional(gpu.graph, handle, CU_GRAPH_COND_TYPE_WHILE, 2).empty());  // WHILE has one body
  CHECK(gpu.AddConditional(gpu.graph, handle + 1000, CU_GRAPH_COND_TYPE_IF, 1).empty());
  CUgraphExec exec = nullptr, second = nullptr;
  CHECK(cuGraphInstantiate(&exec, gpu.graph, 0) == CUDA_ERROR_INVALID_VALUE);  // the handle has no node yet
  CUgraph other = nullptr;
  REQUIRE(cuGraphCreate(&other, 0) == CUDA_SUCCESS);
  CHECK(gpu.AddConditional(other, handle, CU_GRAPH_COND_TYPE_IF, 1).empty());  // the handle of another graph
  REQUIRE(gpu.AddConditional(gpu.graph, handle, CU_GRAPH_COND_TYPE_IF, 1).size() == 1);
  CHECK(gpu.AddConditional(gpu.graph, handle, CU_GRAPH_COND_TYPE_IF, 1).empty());  // taken
  CUgraphNode node = nullptr;
  CUgraph clone = nullptr;
  CHECK(cuGraphAddChildGraphNode(&node, other, nullptr, 0, gpu.graph) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphClone(&clone, gpu.graph) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuGraphInstantiate(&exec, gpu.graph, 0) == CUDA_SUCCESS);
  CHECK(cuGraphInstantiate(&second, gpu.graph, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
  REQUIRE(cuGraphInstantiate(&second, gpu.graph, 0) == CUDA_SUCCESS);
  CHECK(cuGraphExecDestroy(second) == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(other) == CUDA_SUCCESS);
}

TEST_CASE("A launch outlives its executable and its graph, conditionals included") {
  GraphFixture gpu;
  const auto handle = gpu.Handle(gpu.graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
  CUgraphNode node = nullptr;
  CUstreamBatchMemOpParams wait{};
  wait.waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_32, gpu.Word(1), {1}, CU_STREAM_WAIT_VALUE_EQ, 0};
  const CUDA_BATCH_MEM_OP_NODE_PARAMS batch{gpu.context, 1, &wait, 0};
  REQUIRE(cuGraphAddBatchMemOpNode(&node, gpu.graph, nullptr, 0, &batch) == CUDA_SUCCESS);
  const auto bodies = gpu.AddConditional(gpu.graph, handle, CU_GRAPH_COND_TYPE_IF, 1, {node});
  gpu.AddFill(bodies[0], 0, 9);
  const CUgraphExec exec = gpu.Instantiate();
  REQUIRE(cuGraphLaunch(exec, gpu.stream) == CUDA_SUCCESS);
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(gpu.graph) == CUDA_SUCCESS);
  gpu.graph = nullptr;
  CUstream other = nullptr;
  REQUIRE(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  CHECK(cuStreamWriteValue32(other, gpu.Word(1), 1, 0) == CUDA_SUCCESS);
  CHECK(gpu.Read(0) == 9);
  CHECK(cuStreamDestroy(other) == CUDA_SUCCESS);
}
