#include "xla_patch/nvshmem/gpu/cuda_driver.h"

#include <dlfcn.h>

namespace xla_shmem::gpu {

Result<CudaDriver> LoadCudaDriver(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return Status::Error("no NVIDIA driver: " + std::string(dlerror()));
  CudaDriver driver{};
  std::string missing;
  const auto read = [&](const char* name, auto** slot) {
    void* symbol = dlsym(handle, name);
    if (symbol == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(name);
    *slot = reinterpret_cast<std::remove_reference_t<decltype(*slot)>>(symbol);
  };
  read("cuInit", &driver.init);
  read("cuDriverGetVersion", &driver.driver_get_version);
  read("cuDeviceGet", &driver.device_get);
  read("cuDeviceGetAttribute", &driver.device_get_attribute);
  read("cuDeviceGetPCIBusId", &driver.device_get_pci_bus_id);
  read("cuDevicePrimaryCtxRetain", &driver.device_primary_ctx_retain);
  read("cuCtxPushCurrent_v2", &driver.ctx_push_current);
  read("cuCtxPopCurrent_v2", &driver.ctx_pop_current);
  read("cuCtxGetStreamPriorityRange", &driver.ctx_get_stream_priority_range);
  driver.ctx_get_flags = reinterpret_cast<decltype(driver.ctx_get_flags)>(dlsym(handle, "cuCtxGetFlags"));
  driver.ctx_set_flags = reinterpret_cast<decltype(driver.ctx_set_flags)>(dlsym(handle, "cuCtxSetFlags"));
  read("cuStreamCreateWithPriority", &driver.stream_create_with_priority);
  read("cuStreamDestroy_v2", &driver.stream_destroy);
  read("cuStreamIsCapturing", &driver.stream_is_capturing);
  read("cuStreamWaitEvent", &driver.stream_wait_event);
  read("cuStreamWaitValue64_v2", &driver.stream_wait_value64);
  read("cuStreamWriteValue64_v2", &driver.stream_write_value64);
  driver.stream_batch_mem_op =
      reinterpret_cast<decltype(driver.stream_batch_mem_op)>(dlsym(handle, "cuStreamBatchMemOp_v2"));
  read("cuEventCreate", &driver.event_create);
  read("cuEventDestroy_v2", &driver.event_destroy);
  read("cuEventRecord", &driver.event_record);
  read("cuEventQuery", &driver.event_query);
  read("cuEventElapsedTime", &driver.event_elapsed_time);
  read("cuMemGetInfo_v2", &driver.mem_get_info);
  read("cuMemHostAlloc", &driver.mem_host_alloc);
  read("cuMemcpyAsync", &driver.memcpy_async);
  read("cuMemsetD8Async", &driver.memset_d8_async);
  read("cuMemGetAllocationGranularity", &driver.mem_get_granularity);
  read("cuMemAddressReserve", &driver.mem_address_reserve);
  read("cuMemAddressFree", &driver.mem_address_free);
  read("cuMemCreate", &driver.mem_create);
  read("cuMemRelease", &driver.mem_release);
  read("cuMemMap", &driver.mem_map);
  read("cuMemUnmap", &driver.mem_unmap);
  read("cuMemSetAccess", &driver.mem_set_access);
  read("cuMemExportToShareableHandle", &driver.mem_export);
  read("cuMemImportFromShareableHandle", &driver.mem_import);
  read("cuModuleLoadData", &driver.module_load_data);
  read("cuModuleGetFunction", &driver.module_get_function);
  driver.launch_kernel_ex = reinterpret_cast<decltype(driver.launch_kernel_ex)>(dlsym(handle, "cuLaunchKernelEx"));
  read("cuLaunchKernel", &driver.launch_kernel);
  read("cuGetErrorName", &driver.get_error_name);
  if (missing.empty()) return driver;
  dlclose(handle);
  return Status::Error(library + " is too old for xla-shmem, it lacks " + missing +
                       ": install an NVIDIA driver of CUDA 12 or later");
}

}  // namespace xla_shmem::gpu
