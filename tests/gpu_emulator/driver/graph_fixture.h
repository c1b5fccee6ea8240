// A device with a context, a stream, words of device memory and a few kernels, for tests of graphs.
#pragma once

#include <cuda.h>
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace emulator {

class GraphFixture {
 public:
  GraphFixture() {
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    REQUIRE(cuModuleLoadData(&module_, kPtx) == CUDA_SUCCESS);
    REQUIRE(cuMemAlloc(&words, kWords * 4) == CUDA_SUCCESS);
    REQUIRE(cuMemsetD32(words, 0, kWords) == CUDA_SUCCESS);
    REQUIRE(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
    REQUIRE(cuGraphCreate(&graph, 0) == CUDA_SUCCESS);
  }
  ~GraphFixture() {
    CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    if (graph != nullptr) CHECK(cuGraphDestroy(graph) == CUDA_SUCCESS);
    CHECK(cuMemFree(words) == CUDA_SUCCESS);
    CHECK(cuStreamDestroy(stream) == CUDA_SUCCESS);
    CHECK(cuModuleUnload(module_) == CUDA_SUCCESS);
    CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
  }
  GraphFixture(const GraphFixture&) = delete;
  GraphFixture& operator=(const GraphFixture&) = delete;

  CUfunction Kernel(const char* name) {
    CUfunction function = nullptr;
    REQUIRE(cuModuleGetFunction(&function, module_, name) == CUDA_SUCCESS);
    return function;
  }
  CUdeviceptr Word(size_t index) const { return words + index * 4; }
  uint32_t Read(size_t index) {
    CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    uint32_t value = 0;
    REQUIRE(cuMemcpyDtoH(&value, Word(index), 4) == CUDA_SUCCESS);
    return value;
  }
  void Write(size_t index, uint32_t value) {
    REQUIRE(cuMemcpyHtoD(Word(index), &value, 4) == CUDA_SUCCESS);
    REQUIRE(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);  // the call has only staged the value
  }

  // Parameters of a memset of one word.
  static CUDA_MEMSET_NODE_PARAMS Fill(CUdeviceptr word, uint32_t value) { return {word, 0, value, 4, 1, 1}; }

  CUgraphNode AddFill(CUgraph to, size_t index, uint32_t value, const std::vector<CUgraphNode>& on = {}) {
    CUgraphNode node = nullptr;
    const CUDA_MEMSET_NODE_PARAMS fill = Fill(Word(index), value);
    REQUIRE(cuGraphAddMemsetNode(&node, to, on.data(), on.size(), &fill, context) == CUDA_SUCCESS);
    return node;
  }

  // A kernel that takes addresses of words.
  CUgraphNode AddKernel(CUgraph to, const char* name, std::vector<uint64_t> arguments,
                        const std::vector<CUgraphNode>& on = {}) {
    std::vector<void*> pointers;
    for (uint64_t& argument : arguments) pointers.push_back(&argument);
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_KERNEL;
    p.kernel.func = Kernel(name);
    p.kernel.gridDimX = p.kernel.gridDimY = p.kernel.gridDimZ = 1;
    p.kernel.blockDimX = p.kernel.blockDimY = p.kernel.blockDimZ = 1;
    p.kernel.kernelParams = pointers.data();
    CUgraphNode node = nullptr;
    REQUIRE(cuGraphAddNode(&node, to, on.data(), nullptr, on.size(), &p) == CUDA_SUCCESS);
    return node;
  }

  CUgraphExec Instantiate() {
    CUgraphExec exec = nullptr;
    REQUIRE(cuGraphInstantiate(&exec, graph, 0) == CUDA_SUCCESS);
    return exec;
  }
  void Launch(CUgraphExec exec) {
    REQUIRE(cuGraphLaunch(exec, stream) == CUDA_SUCCESS);
    REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  }

  CUgraphConditionalHandle Handle(CUgraph of, unsigned value, unsigned flags) {
    CUgraphConditionalHandle handle = 0;
    REQUIRE(cuGraphConditionalHandleCreate(&handle, of, context, value, flags) == CUDA_SUCCESS);
    return handle;
  }

  // The bodies of the conditional node that is added; none if the driver refuses it.
  std::vector<CUgraph> AddConditional(CUgraph to, CUgraphConditionalHandle handle, CUgraphConditionalNodeType type,
                                      unsigned bodies, const std::vector<CUgraphNode>& on = {},
                                      CUgraphNode* node = nullptr) {
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    p.conditional.handle = handle;
    p.conditional.type = type;
    p.conditional.size = bodies;
    p.conditional.ctx = context;
    CUgraphNode added = nullptr;
    if (cuGraphAddNode(&added, to, on.data(), nullptr, on.size(), &p) != CUDA_SUCCESS) return {};
    if (node != nullptr) *node = added;
    return {p.conditional.phGraph_out, p.conditional.phGraph_out + bodies};
  }

  static constexpr size_t kWords = 64;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUdeviceptr words = 0;
  CUgraph graph = nullptr;

 private:
  // count_down: the first word decreases by one, the second becomes 1 if it is not zero then, else 0.
  // count_up: the word increases by one. The two others have twins in the driver, which run in their place.
  static constexpr const char* kPtx = R"(
.version 8.3
.target sm_80
.address_size 64
.visible .entry count_up(.param .u64 count_up_param_0) {
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [count_up_param_0];
  ld.global.u32 %r1, [%rd1];
  add.s32 %r2, %r1, 1;
  st.global.u32 [%rd1], %r2;
  ret;
}
.visible .entry count_down(.param .u64 count_down_param_0, .param .u64 count_down_param_1) {
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [count_down_param_0];
  ld.param.u64 %rd2, [count_down_param_1];
  ld.global.u32 %r1, [%rd1];
  add.s32 %r2, %r1, -1;
  st.global.u32 [%rd1], %r2;
  setp.ne.s32 %p1, %r2, 0;
  selp.b32 %r3, 1, 0, %p1;
  st.global.u32 [%rd2], %r3;
  ret;
}
.visible .entry set_while_condition(.param .u64 set_while_condition_param_0, .param .u64 set_while_condition_param_1) {
  ret;
}
.visible .entry set_case_condition(
  .param .u64 set_case_condition_param_0, .param .u64 set_case_condition_param_1,
  .param .u64 set_case_condition_param_2, .param .u64 set_case_condition_param_3,
  .param .u64 set_case_condition_param_4, .param .u64 set_case_condition_param_5,
  .param .u64 set_case_condition_param_6, .param .u64 set_case_condition_param_7,
  .param .u64 set_case_condition_param_8, .param .u8 set_case_condition_param_9,
  .param .u32 set_case_condition_param_10, .param .u32 set_case_condition_param_11,
  .param .u8 set_case_condition_param_12) {
  ret;
}
)";

  CUmodule module_ = nullptr;
};

}  // namespace emulator
