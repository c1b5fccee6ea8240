#include "driver/named_kernels.h"

#include <cuda.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "driver/blocking.h"
#include "driver/conditionals.h"
#include "driver/contexts.h"
#include "driver/device_view.h"
#include "driver/handles.h"
#include "driver/log.h"
#include "driver/memory.h"
#include "driver/objects.h"
#include "driver/streams.h"

namespace emulator {

namespace {

// Fills a buffer with copies of what it begins with.
void RepeatBuffer(const std::vector<uint64_t>& p) {
  char* buffer = DeviceView<char>(p[0]);
  for (uint64_t i = p[1]; i < p[2]; ++i) buffer[i] = buffer[i - p[1]];
}

// Counts the bytes that are not the pattern.
void CheckRedzone(const std::vector<uint64_t>& p) {
  const uint8_t* buffer = DeviceView<uint8_t>(p[0]);
  uint32_t* mismatches = DeviceView<uint32_t>(p[3]);
  for (uint64_t i = 0; i < p[2]; ++i) *mismatches += buffer[i] != static_cast<uint8_t>(p[1]) ? 1 : 0;
}

void MakeBatchPointers(const std::vector<uint64_t>& p) {
  uint64_t* pointers = DeviceView<uint64_t>(p[3]);
  for (uint64_t i = 0; i < p[2]; ++i) pointers[i] = p[0] + i * p[1];
}

// The index, or the predicate, says which of up to eight conditional handles is 1; the others become 0. An index
// without a branch takes the last one of the last batch.
void SetCaseCondition(const std::vector<uint64_t>& p) {
  const bool is_predicate = p[9] != 0, takes_default = p[12] != 0;
  const auto first = static_cast<int32_t>(p[10]), count = static_cast<int32_t>(p[11]);
  const int32_t index = is_predicate ? *DeviceView<int8_t>(p[8]) : *DeviceView<int32_t>(p[8]);
  int32_t chosen = index - first;
  if (takes_default && (index < 0 || chosen >= count)) chosen = count - 1;
  for (int32_t i = 0; i < count; ++i) SetConditional(p[static_cast<size_t>(i)], i == chosen ? 1 : 0);
}

void SetWhileCondition(const std::vector<uint64_t>& p) {
  SetConditional(p[0], *DeviceView<uint8_t>(p[1]) != 0 ? 1 : 0);
}

const std::vector<Native>& LinkedKernels() {
  static const auto* kernels = new std::vector<Native>{
      {"RepeatBufferKernel", {8, 8, 8}, RepeatBuffer},
      {"RedzoneAllocatorKernel", {8, 1, 8, 8}, CheckRedzone},
      {"MakeBatchPointers", {8, 8, 8, 8}, MakeBatchPointers},
  };
  return *kernels;
}

const std::vector<Native>& ModuleKernels() {
  static const auto* kernels = new std::vector<Native>{
      {"set_case_condition", {8, 8, 8, 8, 8, 8, 8, 8, 8, 1, 4, 4, 1}, SetCaseCondition},
      {"set_while_condition", {8, 8}, SetWhileCondition},
  };
  return *kernels;
}

}  // namespace

std::set<std::string> TwinsIn(const std::string& ptx) {
  std::set<std::string> found;
  for (const Native& native : ModuleKernels()) {
    if (ptx.find(std::string(".entry ") + native.name + "(") != std::string::npos) found.insert(native.name);
  }
  return found;
}

const Native* FindNative(const std::string& name, bool in_module) {
  for (const Native& native : in_module ? ModuleKernels() : LinkedKernels()) {
    if (in_module ? name == native.name : name.find(native.name) != std::string::npos) return &native;
  }
  return nullptr;
}

extern "C" {
// For our libcudart: a function object for a kernel that XLA registered.
CUresult gpu_emulator_named_kernel(CUfunction* function, const char* name) {
  const Lock lock(Global());
  static auto* functions = new std::map<std::string, std::unique_ptr<CUfunc_st>>;
  auto& slot = (*functions)[name];
  if (slot == nullptr) {
    slot = std::make_unique<CUfunc_st>();
    slot->name = name;
    HandleCreated(HandleKind::kFunction, slot.get());
  }
  Log("native kernel %s: %s", name, FindNative(name, false) != nullptr ? "known" : "without a twin");
  *function = slot.get();
  return CUDA_SUCCESS;
}

CUresult gpu_emulator_launch(CUstream stream, const char* name, void (*run)(const void* parameters),
                             const void* parameters, size_t bytes) {
  TRACE("kernel of a library: %s", name);
  const char* first = static_cast<const char*>(parameters);
  const auto copy = std::make_shared<std::vector<char>>(first, first + bytes);
  return Enqueue(stream, CU_GRAPH_NODE_TYPE_KERNEL, [run, copy] { run(copy->data()); });
}

void gpu_emulator_load(const char* library) { MayWaitFor(WithPeers(CurrentDevice()), library); }

int gpu_emulator_failed() { return HasFailed(WorkingDevice()) ? 1 : 0; }

}  // extern "C"

}  // namespace emulator
