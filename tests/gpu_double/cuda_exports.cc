// The calls of libcuda.so.1 that enqueue, over CudaDouble. The calls that describe the machine are in
// tests/python/driver_double.cc, which is in this library too.
#include <atomic>
#include <cstdlib>
#include <deque>
#include <mutex>

#include "tests/nvshmem/gpu/cuda_double.h"
#include "tests/nvshmem/gpu/cuda_errors.h"

namespace xla_shmem::testing {
namespace {

using gpu::CudaContext;
using gpu::CudaEvent;
using gpu::CudaFunction;
using gpu::CudaModule;
using gpu::CudaStream;
using gpu::DeviceAddress;

const gpu::CudaDriver& Table() { return CudaDouble::Driver(); }

// The primary context of a device. Never destroyed: as with a GPU, streams still run when a process ends.
CudaContext PrimaryContext(int device) {
  static std::mutex mutex;
  static auto* doubles = new std::deque<CudaDouble>;
  const std::lock_guard<std::mutex> lock(mutex);
  while (static_cast<int>(doubles->size()) <= device) doubles->emplace_back(static_cast<unsigned>(doubles->size()) + 1);
  return (*doubles)[device].context();
}

std::atomic<unsigned> context_flags{0};  // of the one context that a process uses

constexpr size_t kFreeBytes = size_t{64} << 30;

constexpr int kAttributeMultiprocessors = 16;  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
constexpr int kMultiprocessors = 132;

}  // namespace
}  // namespace xla_shmem::testing

extern "C" {

using namespace xla_shmem::testing;  // NOLINT(google-build-using-namespace)

int cuDeviceGetAttribute(int* value, int attribute, int /*device*/) {
  switch (attribute) {
    case xla_shmem::gpu::kAttributeComputeMajor:
      *value = 9;
      return 0;
    case xla_shmem::gpu::kAttributeComputeMinor:
      *value = 0;
      return 0;
    case kAttributeMultiprocessors:
      *value = kMultiprocessors;
      return 0;
    default:
      return kInvalidValue;
  }
}

int cuDevicePrimaryCtxRetain(CudaContext* context, int device) {
  *context = PrimaryContext(device);
  return 0;
}

int cuCtxGetCurrent(CudaContext* context) {
  *context = CudaDouble::CurrentContext();
  return 0;
}
int cuCtxPushCurrent_v2(CudaContext context) { return Table().ctx_push_current(context); }
int cuCtxPopCurrent_v2(CudaContext* context) {
  return CudaDouble::CurrentContext() == nullptr ? kInvalidContext : Table().ctx_pop_current(context);
}
int cuCtxGetFlags(unsigned* flags) {
  *flags = context_flags;
  return 0;
}
int cuCtxSetFlags(unsigned flags) {
  context_flags = flags;
  return 0;
}
int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return Table().ctx_get_stream_priority_range(least, greatest);
}

int cuStreamCreateWithPriority(CudaStream* stream, unsigned flags, int priority) {
  return Table().stream_create_with_priority(stream, flags, priority);
}
int cuStreamDestroy_v2(CudaStream stream) { return Table().stream_destroy(stream); }
int cuStreamIsCapturing(CudaStream stream, int* status) { return Table().stream_is_capturing(stream, status); }
int cuStreamWaitEvent(CudaStream stream, CudaEvent event, unsigned flags) {
  return Table().stream_wait_event(stream, event, flags);
}
int cuStreamWaitValue64_v2(CudaStream stream, DeviceAddress address, uint64_t value, unsigned flags) {
  return Table().stream_wait_value64(stream, address, value, flags);
}
int cuStreamWriteValue64_v2(CudaStream stream, DeviceAddress address, uint64_t value, unsigned flags) {
  return Table().stream_write_value64(stream, address, value, flags);
}

int cuEventCreate(CudaEvent* event, unsigned flags) { return Table().event_create(event, flags); }
int cuEventDestroy_v2(CudaEvent event) { return Table().event_destroy(event); }
int cuEventRecord(CudaEvent event, CudaStream stream) { return Table().event_record(event, stream); }
int cuEventQuery(CudaEvent event) { return Table().event_query(event); }

// CUDA_DOUBLE_FREE: bytes of free memory.
int cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  const char* chosen = getenv("CUDA_DOUBLE_FREE");
  *free_bytes = chosen == nullptr ? kFreeBytes : strtoull(chosen, nullptr, 10);
  *total_bytes = kFreeBytes;
  return CudaDouble::CurrentContext() == nullptr ? kInvalidContext : 0;
}
int cuMemHostAlloc(void** memory, size_t bytes, unsigned flags) { return Table().mem_host_alloc(memory, bytes, flags); }
int cuMemcpyAsync(DeviceAddress destination, DeviceAddress source, size_t bytes, CudaStream stream) {
  return Table().memcpy_async(destination, source, bytes, stream);
}
int cuMemsetD8Async(DeviceAddress destination, unsigned char value, size_t bytes, CudaStream stream) {
  return Table().memset_d8_async(destination, value, bytes, stream);
}

int cuModuleLoadData(CudaModule* module, const void* image) { return Table().module_load_data(module, image); }
int cuModuleGetFunction(CudaFunction* function, CudaModule module, const char* name) {
  if (Table().module_get_function(function, module, name) == 0) return 0;
  // A caller's own kernel: it does nothing here.
  static const Kernel nothing{[](void*, unsigned, unsigned) {}, 0};
  *function = const_cast<Kernel*>(&nothing);
  return 0;
}
int cuLaunchKernel(CudaFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, CudaStream stream, void** parameters,
                   void** extra) {
  return Table().launch_kernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
                               parameters, extra);
}

}  // extern "C"
