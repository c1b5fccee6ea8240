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
  const auto read_optional = [&](const char* name, auto** slot) {
    *slot = reinterpret_cast<std::remove_reference_t<decltype(*slot)>>(dlsym(handle, name));
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
  read_optional("cuCtxGetFlags", &driver.ctx_get_flags);
  read_optional("cuCtxSetFlags", &driver.ctx_set_flags);
  read("cuStreamCreateWithPriority", &driver.stream_create_with_priority);
  read("cuStreamDestroy_v2", &driver.stream_destroy);
  read("cuStreamIsCapturing", &driver.stream_is_capturing);
  read("cuStreamWaitEvent", &driver.stream_wait_event);
  read("cuStreamWaitValue64_v2", &driver.stream_wait_value64);
  read("cuStreamWriteValue64_v2", &driver.stream_write_value64);
  read_optional("cuStreamBatchMemOp_v2", &driver.stream_batch_mem_op);
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
  read_optional("cuMulticastCreate", &driver.multicast_create);
  read_optional("cuMulticastGetGranularity", &driver.multicast_get_granularity);
  read_optional("cuMulticastAddDevice", &driver.multicast_add_device);
  read_optional("cuMulticastBindMem", &driver.multicast_bind_mem);
  read_optional("cuMulticastUnbind", &driver.multicast_unbind);
  read("cuModuleLoadData", &driver.module_load_data);
  read("cuModuleGetFunction", &driver.module_get_function);
  read_optional("cuLaunchKernelEx", &driver.launch_kernel_ex);
  read("cuLaunchKernel", &driver.launch_kernel);
  read("cuGetErrorName", &driver.get_error_name);
  if (missing.empty()) return driver;
  dlclose(handle);
  return Status::Error(library + " is too old for xla-shmem, it lacks " + missing +
                       ": install an NVIDIA driver of CUDA 12 or later");
}

Status CudaStatus(const CudaDriver& cuda, int result, const std::string& what) {
  if (result == kCudaSuccess) return {};
  const char* name = nullptr;
  cuda.get_error_name(result, &name);
  return Status::Error(what + " failed with " + (name != nullptr ? name : "error " + std::to_string(result)));
}

}  // namespace xla_shmem::gpu
