// Modules, their functions and globals.
#include <cuda.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "driver/contexts.h"
#include "driver/log.h"
#include "driver/memory.h"
#include "driver/objects.h"

namespace emulator {

extern "C" {

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  *module = new CUmod_st;
  const char* text = static_cast<const char*>(image);
  const bool elf = memcmp(text, "\177ELF", 4) == 0;
  const bool fatbin = !elf && *static_cast<const uint32_t*>(image) == 0xBA55ED50;
  Log("cuModuleLoadData: %s", elf ? "ELF" : fatbin ? "fatbin" : "PTX");
  if (!elf && !fatbin) {
    if (const char* folder = getenv("GPU_EMULATOR_DUMP")) {
      static std::atomic<int> number{0};
      const std::string path =
          std::string(folder) + "/" + std::to_string(getpid()) + "." + std::to_string(number++) + ".ptx";
      if (FILE* file = fopen(path.c_str(), "w")) {
        fputs(text, file);
        fclose(file);
      }
    }
    std::string error;
    (*module)->ptx = ptx::Parse(text, &error);
    if ((*module)->ptx == nullptr) {
      Log("PTX: %s", error.c_str());
      return CUDA_ERROR_INVALID_PTX;
    }
    if (!error.empty()) Log("PTX: %s", error.c_str());
  }
  return CUDA_SUCCESS;
}
CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) {
  return cuModuleLoadData(module, image);
}
CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) { return cuModuleLoadData(module, image); }
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) { return *mode = CU_MODULE_LAZY_LOADING, CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  const Lock lock(Global());
  auto& slot = module->functions[name];
  if (slot == nullptr) {
    slot = std::make_unique<CUfunc_st>();
    slot->module = module;
    slot->name = name;
    if (module->ptx != nullptr) {
      slot->kernel = ptx::FindKernel(*module->ptx, name);
      if (slot->kernel == nullptr) return module->functions.erase(name), CUDA_ERROR_NOT_FOUND;
    } else {
      Log("kernel without PTX: %s", name);
    }
  }
  *function = slot.get();
  return CUDA_SUCCESS;
}
CUresult cuModuleGetGlobal(CUdeviceptr* pointer, size_t* bytes, CUmodule module, const char* name) {
  size_t size = 0;
  void* memory = module->ptx == nullptr ? nullptr : ptx::FindGlobal(*module->ptx, name, &size);
  TRACE("cuModuleGetGlobal %s: %p %zu", name, memory, size);
  if (memory == nullptr) return CUDA_ERROR_NOT_FOUND;
  {
    const Lock lock(Global());
    Ranges()[reinterpret_cast<uintptr_t>(memory)] =
        Range{size, Kind::kDevice, CurrentDevice(), nullptr, 0, false, NextId()};
  }
  if (pointer != nullptr) *pointer = reinterpret_cast<CUdeviceptr>(memory);
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
