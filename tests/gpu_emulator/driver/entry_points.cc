// cuInit, versions, errors, and the addresses of calls.
#include "driver/entry_points.h"

#include <cuda.h>
#include <dlfcn.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "driver/contexts.h"
#include "driver/log.h"
#include "driver/objects.h"
#include "driver/settings.h"

namespace emulator {

extern "C" {

CUresult cuInit(unsigned flags) {
  TRACE("cuInit %u", flags);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  return Visible() > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}
CUresult cuDriverGetVersion(int* version) {
  *version = DriverVersion();
  return CUDA_SUCCESS;
}
CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  std::string name = symbol;
  for (const NewestName* entry = gpu_emulator_newest_names; entry->base != nullptr; ++entry) {
    if (name == entry->base) name = entry->newest;
  }
  static void* self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  *function = name.empty() ? nullptr : dlsym(self != nullptr ? self : RTLD_DEFAULT, name.c_str());
  if (status != nullptr)
    *status = *function != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (*function == nullptr) Log("cuGetProcAddress: no %s (version %d, flags %lu)", symbol, version, flags);
  return *function != nullptr || status != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
#undef cuGetProcAddress
CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  CUdriverProcAddressQueryResult status;
  const CUresult result = cuGetProcAddress_v2(symbol, function, version, flags, &status);
  return result == CUDA_SUCCESS && *function == nullptr ? CUDA_ERROR_NOT_FOUND : result;
}
// Private tables, which NVIDIA's own libcudart asks for; ours (cudart.cc) needs none.
CUresult cuGetExportTable(const void** table, const CUuuid* id) {
  const auto* b = reinterpret_cast<const unsigned char*>(id->bytes);
  Log("cuGetExportTable %02x%02x%02x%02x...", b[0], b[1], b[2], b[3]);
  *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}
CUresult cuGetErrorName(CUresult error, const char** name) {
  *name = nullptr;
  for (const ErrorName* entry = gpu_emulator_error_names; entry->name != nullptr; ++entry) {
    if (entry->number == static_cast<int>(error)) *name = entry->name;
  }
  return *name != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char** text) { return cuGetErrorName(error, text); }

}  // extern "C"

}  // namespace emulator
