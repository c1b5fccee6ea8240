// The table of the CUDA driver calls that transfers need: libcuda.so.1 on a GPU machine, a double in tests
// (tests/nvshmem/gpu/cuda_double.h). Nothing is linked, so the same wheel runs without a driver.
//
// Signatures and constants are those of the CUDA driver API (cuda.h of CUDA 12 and 13, with versioned symbols if the
// API has them). Every call returns a CUresult, 0 for success. Device addresses are plain pointers: with unified
// addressing they never overlap host pointers.
#ifndef XLA_SHMEM_NVSHMEM_GPU_CUDA_DRIVER_H_
#define XLA_SHMEM_NVSHMEM_GPU_CUDA_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "xla_patch/types/status.h"

namespace xla_shmem::gpu {

using CudaStream = void*;    // CUstream
using CudaEvent = void*;     // CUevent
using CudaContext = void*;   // CUcontext
using CudaModule = void*;    // CUmodule
using CudaFunction = void*;  // CUfunction
using DeviceAddress = uint64_t;

inline constexpr int kCudaSuccess = 0;
inline constexpr int kCudaNotReady = 600;           // CUDA_ERROR_NOT_READY
inline constexpr unsigned kStreamNonBlocking = 1;   // CU_STREAM_NON_BLOCKING
inline constexpr unsigned kHostAllocPortable = 1;   // CU_MEMHOSTALLOC_PORTABLE
inline constexpr unsigned kHostAllocDeviceMap = 2;  // CU_MEMHOSTALLOC_DEVICEMAP
inline constexpr unsigned kEventDefault = 0;        // CU_EVENT_DEFAULT
inline constexpr unsigned kEventDisableTiming = 2;  // CU_EVENT_DISABLE_TIMING
inline constexpr unsigned kWaitGreaterOrEqual = 0;  // CU_STREAM_WAIT_VALUE_GEQ: cyclic, (int64)(*address - value) >= 0
inline constexpr unsigned kWaitEqual = 1;           // CU_STREAM_WAIT_VALUE_EQ
inline constexpr int kCaptureNone = 0;              // CU_STREAM_CAPTURE_STATUS_NONE
inline constexpr int kAttributeMultiprocessors = 16;  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
inline constexpr int kAttributeComputeMajor = 75;     // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
inline constexpr int kAttributeComputeMinor = 76;     // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
inline constexpr int kAttribute64BitMemOps = 122;     // CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS
inline constexpr int kLaunchMemSyncDomain = 10;       // CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN
inline constexpr int kMemSyncDomainRemote = 1;        // CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE
inline constexpr int kAllocationPinned = 1;           // CU_MEM_ALLOCATION_TYPE_PINNED
inline constexpr int kLocationDevice = 1;             // CU_MEM_LOCATION_TYPE_DEVICE
inline constexpr unsigned kAccessReadWrite = 3;       // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
inline constexpr int kGranularityRecommended = 1;     // CU_MEM_ALLOC_GRANULARITY_RECOMMENDED
inline constexpr int kMulticastGranularity = 0;       // CU_MULTICAST_GRANULARITY_MINIMUM
inline constexpr int kHandleNone = 0;                 // CU_MEM_HANDLE_TYPE_NONE
inline constexpr int kHandleFile = 1;                 // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
inline constexpr int kHandleFabric = 8;               // CU_MEM_HANDLE_TYPE_FABRIC
inline constexpr size_t kFabricHandleBytes = 64;      // CU_IPC_HANDLE_SIZE
inline constexpr unsigned kBatchWait64 = 4;           // CU_STREAM_MEM_OP_WAIT_VALUE_64
inline constexpr unsigned kBatchWrite64 = 5;          // CU_STREAM_MEM_OP_WRITE_VALUE_64

// CUstreamBatchMemOpParams, as far as waits and writes use it.
struct BatchedOperation {
  unsigned operation;
  DeviceAddress address;
  uint64_t value;
  unsigned flags;
  DeviceAddress alias;  // for the driver
  uint64_t unused;
};
static_assert(sizeof(BatchedOperation) == 48);

// CUlaunchAttribute and CUlaunchConfig.
struct LaunchAttribute {
  int id;
  int value[17];  // at 8 bytes, of 64
};
static_assert(sizeof(LaunchAttribute) == 72);
struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  CudaStream stream;
  LaunchAttribute* attributes;
  unsigned count;
};
static_assert(sizeof(LaunchConfig) == 56);

using MemoryHandle = uint64_t;  // CUmemGenericAllocationHandle

// CUmemAllocationProp.
struct AllocationProperties {
  int type = kAllocationPinned;
  int handle_types = kHandleNone;
  int location_type = kLocationDevice;
  int device = 0;
  void* windows = nullptr;
  uint64_t flags = 0;
};
static_assert(sizeof(AllocationProperties) == 32);

// CUmemAccessDesc.
struct MemoryAccess {
  int location_type = kLocationDevice;
  int device = 0;
  unsigned flags = kAccessReadWrite;
};
static_assert(sizeof(MemoryAccess) == 12);

// CUmulticastObjectProp.
struct MulticastProperties {
  unsigned devices;
  size_t bytes;
  uint64_t handle_types;
  uint64_t flags;
};
static_assert(sizeof(MulticastProperties) == 32);

// CALL(name, symbol, parameters), or OPTIONAL, which is null if the driver lacks it.
//
// driver_get_version: 1000 * major + 10 * minor. ctx_get_flags, ctx_set_flags: of the current context.
// stream_batch_mem_op: up to 255 operations in their order. mem_export writes an int of kHandleFile, or
// kFabricHandleBytes of kHandleFabric; mem_import takes the file descriptor itself, or the address of the bytes.
// Multicast: memory of several devices behind one address, since CUDA 12.1.
#define XLA_SHMEM_CUDA_CALLS(CALL, OPTIONAL)                                                                           \
  CALL(init, "cuInit", (unsigned flags))                                                                               \
  CALL(driver_get_version, "cuDriverGetVersion", (int* version))                                                       \
  CALL(device_get, "cuDeviceGet", (int* device, int ordinal))                                                          \
  CALL(device_get_attribute, "cuDeviceGetAttribute", (int* value, int attribute, int device))                          \
  CALL(device_get_pci_bus_id, "cuDeviceGetPCIBusId", (char* text, int bytes, int device))                              \
  CALL(device_primary_ctx_retain, "cuDevicePrimaryCtxRetain", (CudaContext * context, int device))                     \
  CALL(ctx_push_current, "cuCtxPushCurrent_v2", (CudaContext context))                                                 \
  CALL(ctx_pop_current, "cuCtxPopCurrent_v2", (CudaContext * context))                                                 \
  CALL(ctx_get_stream_priority_range, "cuCtxGetStreamPriorityRange", (int* least, int* greatest))                      \
  OPTIONAL(ctx_get_flags, "cuCtxGetFlags", (unsigned* flags))                                                          \
  OPTIONAL(ctx_set_flags, "cuCtxSetFlags", (unsigned flags))                                                           \
  CALL(stream_create_with_priority, "cuStreamCreateWithPriority", (CudaStream * stream, unsigned flags, int priority)) \
  CALL(stream_is_capturing, "cuStreamIsCapturing", (CudaStream stream, int* status))                                   \
  CALL(stream_wait_event, "cuStreamWaitEvent", (CudaStream stream, CudaEvent event, unsigned flags))                   \
  CALL(stream_wait_value64, "cuStreamWaitValue64_v2",                                                                  \
       (CudaStream stream, DeviceAddress address, uint64_t value, unsigned flags))                                     \
  CALL(stream_write_value64, "cuStreamWriteValue64_v2",                                                                \
       (CudaStream stream, DeviceAddress address, uint64_t value, unsigned flags))                                     \
  OPTIONAL(stream_batch_mem_op, "cuStreamBatchMemOp_v2",                                                               \
           (CudaStream stream, unsigned count, BatchedOperation* operations, unsigned flags))                          \
  CALL(event_create, "cuEventCreate", (CudaEvent * event, unsigned flags))                                             \
  CALL(event_record, "cuEventRecord", (CudaEvent event, CudaStream stream))                                            \
  CALL(event_query, "cuEventQuery", (CudaEvent event))                                                                 \
  CALL(event_elapsed_time, "cuEventElapsedTime", (float* milliseconds, CudaEvent from, CudaEvent to))                  \
  CALL(mem_get_info, "cuMemGetInfo_v2", (size_t* free_bytes, size_t* total_bytes))                                     \
  CALL(mem_host_alloc, "cuMemHostAlloc", (void** memory, size_t bytes, unsigned flags))                                \
  CALL(memcpy_async, "cuMemcpyAsync",                                                                                  \
       (DeviceAddress destination, DeviceAddress source, size_t bytes, CudaStream stream))                             \
  CALL(memset_d8_async, "cuMemsetD8Async",                                                                             \
       (DeviceAddress destination, unsigned char value, size_t bytes, CudaStream stream))                              \
  CALL(mem_get_granularity, "cuMemGetAllocationGranularity",                                                           \
       (size_t* bytes, const AllocationProperties* properties, int option))                                            \
  CALL(mem_address_reserve, "cuMemAddressReserve",                                                                     \
       (DeviceAddress * address, size_t bytes, size_t alignment, DeviceAddress wanted, uint64_t flags))                \
  CALL(mem_address_free, "cuMemAddressFree", (DeviceAddress address, size_t bytes))                                    \
  CALL(mem_create, "cuMemCreate",                                                                                      \
       (MemoryHandle * handle, size_t bytes, const AllocationProperties* properties, uint64_t flags))                  \
  CALL(mem_release, "cuMemRelease", (MemoryHandle handle))                                                             \
  CALL(mem_map, "cuMemMap", (DeviceAddress address, size_t bytes, size_t offset, MemoryHandle handle, uint64_t flags)) \
  CALL(mem_unmap, "cuMemUnmap", (DeviceAddress address, size_t bytes))                                                 \
  CALL(mem_set_access, "cuMemSetAccess",                                                                               \
       (DeviceAddress address, size_t bytes, const MemoryAccess* access, size_t count))                                \
  CALL(mem_export, "cuMemExportToShareableHandle",                                                                     \
       (void* shareable, MemoryHandle handle, int handle_type, uint64_t flags))                                        \
  CALL(mem_import, "cuMemImportFromShareableHandle", (MemoryHandle * handle, void* shareable, int handle_type))        \
  OPTIONAL(multicast_create, "cuMulticastCreate", (MemoryHandle * handle, const MulticastProperties* properties))      \
  OPTIONAL(multicast_get_granularity, "cuMulticastGetGranularity",                                                     \
           (size_t* bytes, const MulticastProperties* properties, int option))                                         \
  OPTIONAL(multicast_add_device, "cuMulticastAddDevice", (MemoryHandle handle, int device))                            \
  OPTIONAL(                                                                                                            \
      multicast_bind_mem, "cuMulticastBindMem",                                                                        \
      (MemoryHandle handle, size_t offset, MemoryHandle memory, size_t memory_offset, size_t bytes, uint64_t flags))   \
  OPTIONAL(multicast_unbind, "cuMulticastUnbind", (MemoryHandle handle, int device, size_t offset, size_t bytes))      \
  CALL(module_load_data, "cuModuleLoadData", (CudaModule * module, const void* image))                                 \
  CALL(module_get_function, "cuModuleGetFunction", (CudaFunction * function, CudaModule module, const char* name))     \
  OPTIONAL(launch_kernel_ex, "cuLaunchKernelEx",                                                                       \
           (const LaunchConfig* config, CudaFunction function, void** parameters, void** extra))                       \
  CALL(launch_kernel, "cuLaunchKernel",                                                                                \
       (CudaFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,  \
        unsigned block_z, unsigned shared_bytes, CudaStream stream, void** parameters, void** extra))                  \
  CALL(get_error_name, "cuGetErrorName", (int error, const char** name))

struct CudaDriver {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration
#define XLA_SHMEM_CUDA_FIELD(name, symbol, parameters) int(*name) parameters;
  XLA_SHMEM_CUDA_CALLS(XLA_SHMEM_CUDA_FIELD, XLA_SHMEM_CUDA_FIELD)
#undef XLA_SHMEM_CUDA_FIELD
};

// Opens `library` (normally "libcuda.so.1") and fills the table. Error if it does not open or lacks a call. Does not
// call into the driver.
Result<CudaDriver> LoadCudaDriver(const std::string& library);

// Ok, or `what` with the name of the error.
Status CudaStatus(const CudaDriver& cuda, int result, const std::string& what);

inline DeviceAddress AddressOf(const void* pointer) { return reinterpret_cast<DeviceAddress>(pointer); }

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_CUDA_DRIVER_H_
