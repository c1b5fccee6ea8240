#include <cuda.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "driver/counts.h"
#include "driver/death.h"
#include "driver/driver_fixture.h"

namespace emulator {
namespace {

void SetTrue(void* flag) { *static_cast<std::atomic<bool>*>(flag) = true; }

// A destination that garbage and source differ from in every byte.
std::vector<uint8_t> Pattern(size_t bytes) {
  std::vector<uint8_t> values(bytes);
  for (size_t i = 0; i < bytes; ++i) values[i] = static_cast<uint8_t>(1 + i % 100);
  return values;
}

TEST_CASE("Work runs after its call") {
  DriverFixture gpu;
  const CUstream stream = gpu.Stream();
  uint32_t* word = gpu.Pinned(1);
  std::atomic<bool> ran{false};
  gpu.Hold(stream, word);
  REQUIRE(cuLaunchHostFunc(stream, SetTrue, &ran) == CUDA_SUCCESS);
  CHECK(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
  CHECK(!ran);
  gpu.LetGo(word);
  CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(ran);
  CHECK(cuStreamDestroy(stream) == CUDA_SUCCESS);
  CHECK(cuMemFreeHost(word) == CUDA_SUCCESS);
}

TEST_CASE("Streams run beside each other and events order them") {
  DriverFixture gpu;
  const CUstream first = gpu.Stream(), second = gpu.Stream();
  uint32_t* word = gpu.Pinned(1);
  std::atomic<bool> ran{false}, ordered{false};
  CUevent event = nullptr;
  REQUIRE(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
  gpu.Hold(first, word);
  REQUIRE(cuEventRecord(event, first) == CUDA_SUCCESS);
  REQUIRE(cuLaunchHostFunc(second, SetTrue, &ran) == CUDA_SUCCESS);
  CHECK(cuStreamSynchronize(second) == CUDA_SUCCESS);
  CHECK(ran);
  REQUIRE(cuStreamWaitEvent(second, event, 0) == CUDA_SUCCESS);
  REQUIRE(cuLaunchHostFunc(second, SetTrue, &ordered) == CUDA_SUCCESS);
  CHECK(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
  usleep(5000);
  CHECK(!ordered);
  gpu.LetGo(word);
  CHECK(cuStreamSynchronize(second) == CUDA_SUCCESS);
  CHECK(ordered);
  CHECK(cuEventQuery(event) == CUDA_SUCCESS);
  CHECK(cuEventDestroy(event) == CUDA_SUCCESS);
  CHECK(cuStreamDestroy(first) == CUDA_SUCCESS);
  CHECK(cuStreamDestroy(second) == CUDA_SUCCESS);
  CHECK(cuMemFreeHost(word) == CUDA_SUCCESS);
}

// Runs work behind a held stream in the first other stream that shares its hardware queue, and in one that does not.
void CheckQueues(int queues) {
  DriverFixture gpu;
  std::vector<CUstream> streams;
  for (int i = 0; i <= queues; ++i) streams.push_back(gpu.Stream());
  uint32_t* word = gpu.Pinned(1);
  std::atomic<bool> shared{false}, other{false};
  gpu.Hold(streams[0], word);
  REQUIRE(cuLaunchHostFunc(streams[static_cast<size_t>(queues)], SetTrue, &shared) == CUDA_SUCCESS);
  if (queues > 1) {
    REQUIRE(cuLaunchHostFunc(streams[1], SetTrue, &other) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(streams[1]) == CUDA_SUCCESS);
    CHECK(other);
  }
  usleep(5000);
  CHECK(!shared);
  CHECK(cuStreamQuery(streams[static_cast<size_t>(queues)]) == CUDA_ERROR_NOT_READY);
  gpu.LetGo(word);
  CHECK(cuStreamSynchronize(streams[static_cast<size_t>(queues)]) == CUDA_SUCCESS);
  CHECK(shared);
}

TEST_CASE("A wait holds the streams that share its hardware queue") { CheckQueues(8); }

DYING_TEST_CASE("has one hardware queue") { CheckQueues(1); }
TEST_CASE("CUDA_DEVICE_MAX_CONNECTIONS is the number of hardware queues") {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
  CHECK(LastWords("has one hardware queue").empty());
  unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
}

TEST_CASE("The source of a copy is read when the copy runs, and its destination changes then") {
  DriverFixture gpu;
  const CUstream stream = gpu.Stream();
  uint32_t* words = gpu.Pinned(3);
  const CUdeviceptr pointer = gpu.Memory(4);
  gpu.Hold(stream, words);
  words[1] = 5;
  REQUIRE(cuMemcpyHtoDAsync(pointer, words + 1, 4, stream) == CUDA_SUCCESS);
  REQUIRE(cuMemcpyDtoHAsync(words + 2, pointer, 4, stream) == CUDA_SUCCESS);
  words[1] = 6;
  CHECK(words[2] == 0);
  gpu.LetGo(words);
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(words[2] == 6);
  CHECK(cuStreamDestroy(stream) == CUDA_SUCCESS);
  CHECK(cuMemFree(pointer) == CUDA_SUCCESS);
  CHECK(cuMemFreeHost(words) == CUDA_SUCCESS);
}

TEST_CASE("The destination of a running copy has garbage, and is filled out of order") {
  DriverFixture gpu;
  constexpr size_t kBytes = size_t{1} << 16;
  const CUstream stream = gpu.Stream();
  void* memory = nullptr;
  REQUIRE(cuMemAllocHost(&memory, kBytes) == CUDA_SUCCESS);
  auto* seen = static_cast<volatile uint8_t*>(memory);
  const CUdeviceptr source = gpu.Memory(kBytes);
  const std::vector<uint8_t> pattern = Pattern(kBytes);
  REQUIRE(cuMemcpyHtoD(source, pattern.data(), kBytes) == CUDA_SUCCESS);
  REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  bool garbage = false, out_of_order = false;
  for (int i = 0; i < 400 && !(garbage && out_of_order); ++i) {
    std::fill_n(static_cast<uint8_t*>(memory), kBytes, uint8_t{0});
    REQUIRE(cuMemcpyDtoHAsync(memory, source, kBytes, stream) == CUDA_SUCCESS);
    while (cuStreamQuery(stream) == CUDA_ERROR_NOT_READY) {
      const uint8_t first = seen[0], last = seen[kBytes - 1];
      garbage = garbage || first > 100 || last > 100;
      out_of_order = out_of_order || (last == pattern[kBytes - 1] && first != pattern[0] && seen[0] != pattern[0]);
    }
    CHECK(std::equal(pattern.begin(), pattern.end(), static_cast<uint8_t*>(memory)));
  }
  CHECK(garbage);
  CHECK(out_of_order);
  CHECK(cuStreamDestroy(stream) == CUDA_SUCCESS);
  CHECK(cuMemFree(source) == CUDA_SUCCESS);
  CHECK(cuMemFreeHost(memory) == CUDA_SUCCESS);
}

TEST_CASE("Pageable memory is staged by a copy to the device, and complete after a copy from it") {
  DriverFixture gpu;
  const CUstream stream = gpu.Stream();
  uint32_t* word = gpu.Pinned(1);
  const CUdeviceptr pointer = gpu.Memory(4);
  uint32_t value = 7;
  gpu.Hold(stream, word);
  REQUIRE(cuMemcpyHtoDAsync(pointer, &value, 4, stream) == CUDA_SUCCESS);
  value = 8;
  CHECK(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
  gpu.LetGo(word);
  REQUIRE(cuMemcpyDtoHAsync(&value, pointer, 4, stream) == CUDA_SUCCESS);
  CHECK(value == 7);
  CHECK(cuStreamDestroy(stream) == CUDA_SUCCESS);
  CHECK(cuMemFree(pointer) == CUDA_SUCCESS);
  CHECK(cuMemFreeHost(word) == CUDA_SUCCESS);
}

TEST_CASE("The legacy default stream waits for blocking streams only, and they for it") {
  DriverFixture gpu;
  const CUstream blocking = gpu.Stream(CU_STREAM_DEFAULT), free = gpu.Stream();
  uint32_t* words = gpu.Pinned(2);
  std::atomic<bool> after_free{false}, after_blocking{false}, after_default{false};
  gpu.Hold(free, words);
  REQUIRE(cuLaunchHostFunc(nullptr, SetTrue, &after_free) == CUDA_SUCCESS);
  CHECK(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
  CHECK(after_free);
  gpu.Hold(blocking, words + 1);
  REQUIRE(cuLaunchHostFunc(nullptr, SetTrue, &after_blocking) == CUDA_SUCCESS);
  const CUstream second = gpu.Stream(CU_STREAM_DEFAULT);
  REQUIRE(cuLaunchHostFunc(second, SetTrue, &after_default) == CUDA_SUCCESS);
  usleep(5000);
  CHECK(!after_blocking);
  CHECK(!after_default);
  gpu.LetGo(words + 1);
  CHECK(cuStreamSynchronize(second) == CUDA_SUCCESS);
  CHECK(after_blocking);
  CHECK(after_default);
  gpu.LetGo(words);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  for (CUstream stream : {blocking, free, second}) CHECK(cuStreamDestroy(stream) == CUDA_SUCCESS);
  CHECK(cuMemFreeHost(words) == CUDA_SUCCESS);
}

TEST_CASE("A memset returns before it is done, unless memory operations of the context are synchronous") {
  DriverFixture gpu;
  const CUstream blocking = gpu.Stream(CU_STREAM_DEFAULT);
  uint32_t* word = gpu.Pinned(1);
  const CUdeviceptr pointer = gpu.Memory(4);
  gpu.Hold(blocking, word);
  REQUIRE(cuMemsetD32(pointer, 3, 1) == CUDA_SUCCESS);  // in the null stream, behind the held one
  CHECK(cuStreamQuery(nullptr) == CUDA_ERROR_NOT_READY);
  gpu.LetGo(word);
  CHECK(gpu.Read(pointer, 1)[0] == 3);
  unsigned flags = 0;
  int active = 0;
  REQUIRE(cuCtxSetFlags(CU_CTX_SYNC_MEMOPS) == CUDA_SUCCESS);
  REQUIRE(cuDevicePrimaryCtxGetState(0, &flags, &active) == CUDA_SUCCESS);
  CHECK(flags == CU_CTX_SYNC_MEMOPS);
  CHECK(active == 1);
  REQUIRE(cuMemsetD32(pointer, 4, 1) == CUDA_SUCCESS);
  CHECK(cuStreamQuery(nullptr) == CUDA_SUCCESS);
  REQUIRE(cuCtxSetFlags(0) == CUDA_SUCCESS);
  CHECK(cuStreamDestroy(blocking) == CUDA_SUCCESS);
  CHECK(cuMemFree(pointer) == CUDA_SUCCESS);
  CHECK(cuMemFreeHost(word) == CUDA_SUCCESS);
}

TEST_CASE("Calls without a current context are refused") {
  {
    const DriverFixture gpu;
  }
  REQUIRE(cuCtxSetCurrent(nullptr) == CUDA_SUCCESS);
  CUdeviceptr pointer = 0;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  size_t bytes = 0;
  CHECK(cuMemAlloc(&pointer, 8) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuMemGetInfo(&bytes, &bytes) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuStreamCreate(&stream, 0) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuEventCreate(&event, 0) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuStreamSynchronize(nullptr) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuCtxSynchronize() == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuMemsetD8Async(0x1000, 0, 1, nullptr) == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE("Destroyed streams and events are refused; work of a destroyed stream is done") {
  DriverFixture gpu;
  const CUstream stream = gpu.Stream(), other = gpu.Stream();
  uint32_t* word = gpu.Pinned(1);
  std::atomic<bool> ran{false};
  CUevent event = nullptr;
  REQUIRE(cuEventCreate(&event, 0) == CUDA_SUCCESS);
  gpu.Hold(stream, word);
  REQUIRE(cuLaunchHostFunc(stream, SetTrue, &ran) == CUDA_SUCCESS);
  REQUIRE(cuEventRecord(event, stream) == CUDA_SUCCESS);
  REQUIRE(cuStreamDestroy(stream) == CUDA_SUCCESS);
  CHECK(cuStreamDestroy(stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuStreamSynchronize(stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuLaunchHostFunc(stream, SetTrue, &ran) == CUDA_ERROR_INVALID_HANDLE);
  gpu.LetGo(word);
  CHECK(cuEventSynchronize(event) == CUDA_SUCCESS);
  CHECK(ran);
  REQUIRE(cuEventDestroy(event) == CUDA_SUCCESS);
  CHECK(cuEventQuery(event) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuStreamWaitEvent(other, event, 0) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuStreamDestroy(other) == CUDA_SUCCESS);
  CHECK(cuMemFreeHost(word) == CUDA_SUCCESS);
}

TEST_CASE("Events without timing have no times") {
  DriverFixture gpu;
  CUevent timed = nullptr, untimed = nullptr;
  REQUIRE(cuEventCreate(&timed, 0) == CUDA_SUCCESS);
  REQUIRE(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
  float milliseconds = -1;
  CHECK(cuEventElapsedTime(&milliseconds, timed, timed) == CUDA_ERROR_INVALID_HANDLE);  // not recorded
  REQUIRE(cuEventRecord(timed, nullptr) == CUDA_SUCCESS);
  REQUIRE(cuEventRecord(untimed, nullptr) == CUDA_SUCCESS);
  REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(cuEventElapsedTime(&milliseconds, timed, timed) == CUDA_SUCCESS);
  CHECK(milliseconds == 0);
  CHECK(cuEventElapsedTime(&milliseconds, timed, untimed) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuEventDestroy(timed) == CUDA_SUCCESS);
  CHECK(cuEventDestroy(untimed) == CUDA_SUCCESS);
}

TEST_CASE("Memory operations check address, alignment, flags and number") {
  DriverFixture gpu;
  const CUstream stream = gpu.Stream();
  const CUdeviceptr word = gpu.Memory(16);
  uint64_t pageable = 0;
  CHECK(cuStreamWriteValue32(stream, word + 2, 1, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamWriteValue64(stream, word + 4, 1, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamWriteValue32(stream, word, 1, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamWaitValue32(stream, word, 1, 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamWaitValue32(stream, word, 1, CU_STREAM_WAIT_VALUE_FLUSH) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(cuStreamWriteValue64(stream, gpu.Address(&pageable), 1, 0) == CUDA_ERROR_INVALID_VALUE);
  std::vector<CUstreamBatchMemOpParams> batch(256);
  for (auto& operation : batch) operation.writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, word, {3}, 0, 0};
  CHECK(cuStreamBatchMemOp(stream, 256, batch.data(), 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamBatchMemOp(stream, 0, batch.data(), 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamBatchMemOp(stream, 1, batch.data(), 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamBatchMemOp(stream, 255, batch.data(), 0) == CUDA_SUCCESS);
  batch[0].operation = static_cast<CUstreamBatchMemOpType>(15);
  CHECK(cuStreamBatchMemOp(stream, 1, batch.data(), 0) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(gpu.Read(word, 1)[0] == 3);
  CHECK(cuStreamDestroy(stream) == CUDA_SUCCESS);
  CHECK(cuMemFree(word) == CUDA_SUCCESS);
}

TEST_CASE("A batch is one operation that runs in its order, also in a graph") {
  DriverFixture gpu;
  const CUstream stream = gpu.Stream();
  uint32_t* words = gpu.Pinned(6);
  CUstreamBatchMemOpParams batch[3] = {};
  batch[0].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, gpu.Address(words), {5}, 0, 0};
  batch[1].waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_32, gpu.Address(words + 1), {1}, CU_STREAM_WAIT_VALUE_EQ, 0};
  batch[2].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_64, gpu.Address(words + 2), {0}, 0, 0};
  batch[2].writeValue.value64 = uint64_t{7} << 32;
  const auto at = [&](size_t word) { return __atomic_load_n(words + word, __ATOMIC_ACQUIRE); };
  const auto runs_in_order = [&] {
    while (at(0) != 5) usleep(100);
    usleep(5000);
    CHECK(at(3) == 0);
    gpu.LetGo(words + 1);
    REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    CHECK(at(3) == 7);
    words[0] = words[1] = words[3] = 0;
  };
  REQUIRE(cuStreamBatchMemOp(stream, 3, batch, 0) == CUDA_SUCCESS);
  runs_in_order();
  REQUIRE(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
  REQUIRE(cuStreamBatchMemOp(stream, 3, batch, 0) == CUDA_SUCCESS);
  batch[0].writeValue.value = 6;  // too late
  CUgraph graph = nullptr;
  REQUIRE(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
  size_t nodes = 0;
  REQUIRE(cuGraphGetNodes(graph, nullptr, &nodes) == CUDA_SUCCESS);
  CHECK(nodes == 1);
  CUgraphExec executable = nullptr;
  REQUIRE(cuGraphInstantiate(&executable, graph, 0) == CUDA_SUCCESS);
  for (int launch = 0; launch < 2; ++launch) {
    REQUIRE(cuGraphLaunch(executable, stream) == CUDA_SUCCESS);
    runs_in_order();
  }
  CHECK(cuGraphExecDestroy(executable) == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(graph) == CUDA_SUCCESS);
  CHECK(cuStreamDestroy(stream) == CUDA_SUCCESS);
  CHECK(cuMemFreeHost(words) == CUDA_SUCCESS);
}

TEST_CASE("A device without 64-bit memory operations says so and refuses them, also in a batch") {
  DriverFixture gpu;
  const CUstream stream = gpu.Stream();
  const CUdeviceptr word = gpu.Memory(16);
  int can = 0;
  REQUIRE(cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 0) == CUDA_SUCCESS);
  CHECK(can == 1);
  setenv("GPU_EMULATOR_WIDE_MEMORY_OPERATIONS", "0", 1);
  REQUIRE(cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 0) == CUDA_SUCCESS);
  CHECK(can == 0);
  CHECK(cuStreamWriteValue64(stream, word, 1, 0) == CUDA_ERROR_NOT_SUPPORTED);
  CUstreamBatchMemOpParams batch[2] = {};
  batch[0].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, word, {1}, 0, 0};
  batch[1].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_64, word + 8, {1}, 0, 0};
  CHECK(cuStreamBatchMemOp(stream, 2, batch, 0) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(cuStreamBatchMemOp(stream, 1, batch, 0) == CUDA_SUCCESS);
  unsetenv("GPU_EMULATOR_WIDE_MEMORY_OPERATIONS");
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(cuStreamDestroy(stream) == CUDA_SUCCESS);
  CHECK(cuMemFree(word) == CUDA_SUCCESS);
}

TEST_CASE("Operations and bytes are counted by stream and kind") {
  DriverFixture gpu;
  const CUstream stream = gpu.Stream();
  unsigned long long id = 0;
  REQUIRE(cuStreamGetId(stream, &id) == CUDA_SUCCESS);
  const CUdeviceptr from = gpu.Memory(100), to = gpu.Memory(100);
  for (int i = 0; i < 3; ++i) REQUIRE(cuMemcpyDtoDAsync(to, from, 100, stream) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD8Async(to, 0, 100, stream) == CUDA_SUCCESS);
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  const std::string path = "/tmp/gpu_emulator_counts." + std::to_string(getpid());
  REQUIRE(gpu_emulator_write_counts(path.c_str()) == 0);
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  remove(path.c_str());
  const std::string of_stream = "\"stream\": " + std::to_string(id) + ", ";
  INFO(text.str());
  CHECK(text.str().find(of_stream + "\"kind\": \"memcpy\", \"operations\": 3, \"bytes\": 300}") != std::string::npos);
  CHECK(text.str().find(of_stream + "\"kind\": \"memset\", \"operations\": 1,") != std::string::npos);
  CHECK(cuStreamDestroy(stream) == CUDA_SUCCESS);
  CHECK(cuMemFree(from) == CUDA_SUCCESS);
  CHECK(cuMemFree(to) == CUDA_SUCCESS);
}

}  // namespace
}  // namespace emulator
