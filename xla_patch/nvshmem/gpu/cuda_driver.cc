#include "xla_patch/nvshmem/gpu/cuda_driver.h"

#include <dlfcn.h>

#include "xla_patch/nvshmem/symbol_reader.h"

namespace xla_shmem::gpu {

Result<CudaDriver> LoadCudaDriver(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return Status::Error("no NVIDIA driver: " + std::string(dlerror()));
  CudaDriver driver{};
  SymbolReader reader(handle);
#define XLA_SHMEM_READ(name, symbol, parameters) reader.Read(symbol, &driver.name);
#define XLA_SHMEM_READ_OPTIONAL(name, symbol, parameters) reader.ReadOptional(symbol, &driver.name);
  XLA_SHMEM_CUDA_CALLS(XLA_SHMEM_READ, XLA_SHMEM_READ_OPTIONAL)
#undef XLA_SHMEM_READ
#undef XLA_SHMEM_READ_OPTIONAL
  if (reader.missing().empty()) return driver;
  dlclose(handle);
  return Status::Error(library + " is too old for xla-shmem, it lacks " + reader.missing() +
                       ": install an NVIDIA driver of CUDA 12 or later");
}

Status CudaStatus(const CudaDriver& cuda, int result, const std::string& what) {
  if (result == kCudaSuccess) return {};
  const char* name = nullptr;
  cuda.get_error_name(result, &name);
  return Status::Error(what + " failed with " + (name != nullptr ? name : "error " + std::to_string(result)));
}

}  // namespace xla_shmem::gpu
