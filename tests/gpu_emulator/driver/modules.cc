// Modules, their functions and globals.
#include <cuda.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "driver/blocking.h"
#include "driver/contexts.h"
#include "driver/handles.h"
#include "driver/log.h"
#include "driver/memory.h"
#include "driver/named_kernels.h"
#include "driver/objects.h"

namespace emulator {

namespace {

// Writes the image to the folder that GPU_EMULATOR_DUMP names.
void Dump(const char* text) {
  const char* folder = getenv("GPU_EMULATOR_DUMP");
  if (folder == nullptr) return;
  static std::atomic<int> number{0};
  const std::string path =
      std::string(folder) + "/" + std::to_string(getpid()) + "." + std::to_string(number++) + ".ptx";
  FILE* file = fopen(path.c_str(), "w");
  if (file == nullptr) return;
  fputs(text, file);
  fclose(file);
}

bool IsMachineCode(const void* image) {
  constexpr uint32_t kFatBinary = 0xBA55ED50;
  uint32_t first = 0;
  memcpy(&first, image, sizeof(first));
  return memcmp(image, "\177ELF", 4) == 0 || first == kFatBinary;
}

}  // namespace

extern "C" {

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  const CUresult result = RequireContext(__func__);
  if (result != CUDA_SUCCESS) return result;
  if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto loaded = std::make_unique<CUmod_st>();
  loaded->device = CurrentDevice();
  if (!IsMachineCode(image)) {
    const char* text = static_cast<const char*>(image);
    Dump(text);
    std::string error;
    loaded->twins = TwinsIn(text);
    loaded->ptx = ptx::Parse(text, &error);
    if (loaded->twins.empty()) {
      if (!error.empty()) Complain("PTX: %s", error.c_str());
      if (loaded->ptx == nullptr) return CUDA_ERROR_INVALID_PTX;
    }
  }
  MayWaitFor(WithPeers(loaded->device), __func__);
  *module = loaded.release();
  HandleCreated(HandleKind::kModule, *module);
  return CUDA_SUCCESS;
}
CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) {
  return cuModuleLoadData(module, image);
}
CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) { return cuModuleLoadData(module, image); }
// Launches that are under way keep the module's memory, so it is kept altogether; its handle is no longer valid.
CUresult cuModuleUnload(CUmodule module) {
  if (!IsLive(HandleKind::kModule, module, __func__)) return CUDA_ERROR_INVALID_HANDLE;
  const Lock lock(Global());
  static auto* unloaded = new std::vector<CUmodule>;
  unloaded->push_back(module);
  for (const auto& [name, function] : module->functions) {
    HandleDestroyed(HandleKind::kFunction, function.get(), __func__);
  }
  for (const auto& [name, address] : module->globals) {
    const auto range = Ranges().find(address);
    if (range != Ranges().end()) Ranges().erase(range);
  }
  HandleDestroyed(HandleKind::kModule, module, __func__);
  return CUDA_SUCCESS;
}
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) { return *mode = CU_MODULE_LAZY_LOADING, CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  if (!IsLive(HandleKind::kModule, module, __func__)) return CUDA_ERROR_INVALID_HANDLE;
  const Lock lock(Global());
  auto& slot = module->functions[name];
  if (slot == nullptr) {
    slot = std::make_unique<CUfunc_st>();
    slot->module = module;
    slot->name = name;
    if (module->ptx != nullptr || !module->twins.empty()) {
      if (module->ptx != nullptr) slot->kernel = ptx::FindKernel(*module->ptx, name);
      if (slot->kernel == nullptr && module->twins.count(name) == 0) {
        module->functions.erase(name);
        return CUDA_ERROR_NOT_FOUND;
      }
    } else {
      Log("a kernel of machine code, which cannot be launched: %s", name);
    }
    HandleCreated(HandleKind::kFunction, slot.get());
  }
  *function = slot.get();
  return CUDA_SUCCESS;
}
CUresult cuModuleGetGlobal(CUdeviceptr* pointer, size_t* bytes, CUmodule module, const char* name) {
  if (!IsLive(HandleKind::kModule, module, __func__)) return CUDA_ERROR_INVALID_HANDLE;
  size_t size = 0;
  void* memory = module->ptx == nullptr ? nullptr : ptx::FindGlobal(*module->ptx, name, &size);
  if (memory == nullptr) return CUDA_ERROR_NOT_FOUND;
  const auto address = reinterpret_cast<CUdeviceptr>(memory);
  const Lock lock(Global());
  if (module->globals.emplace(name, address).second) {
    Ranges()[address] = Range{size, Kind::kGlobal, module->device, nullptr, NextId(), __func__};
  }
  if (pointer != nullptr) *pointer = address;
  if (bytes != nullptr) *bytes = size;
  return CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = 32;
      break;
    default:
      *value = function->attributes.count(attribute) != 0 ? function->attributes[attribute] : 0;
      break;
  }
  return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return function->attributes[attribute] = value, CUDA_SUCCESS;
}
CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }
CUresult cuFuncGetName(const char** name, CUfunction function) { return *name = function->name.c_str(), CUDA_SUCCESS; }
CUresult cuFuncGetModule(CUmodule* module, CUfunction function) { return *module = function->module, CUDA_SUCCESS; }
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int, size_t) {
  return *blocks = 1, CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction, int, size_t, unsigned) {
  return *blocks = 1, CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace emulator
