// Kernels that XLA links as machine code: written again here, and found by a part of their (mangled) names.
#include "driver/named_kernels.h"

#include <cuda.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "driver/log.h"
#include "driver/objects.h"
#include "driver/streams.h"

namespace emulator {

extern "C" {

static const std::vector<Native>& Natives() {
  static const auto* natives = new std::vector<Native>{
      {"RepeatBufferKernel",
       {8, 8, 8},
       [](const std::vector<uint64_t>& a) {
         char* buffer = reinterpret_cast<char*>(a[0]);
         for (uint64_t i = a[1]; i < a[2]; ++i) buffer[i] = buffer[i - a[1]];
       }},
  };
  return *natives;
}
}  // extern "C"

const Native* FindNative(const std::string& name) {
  for (const Native& native : Natives()) {
    if (name.find(native.part) != std::string::npos) return &native;
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
  }
  Log("native kernel %s: %s", name, FindNative(name) != nullptr ? "known" : "UNKNOWN");
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

}  // extern "C"

}  // namespace emulator
