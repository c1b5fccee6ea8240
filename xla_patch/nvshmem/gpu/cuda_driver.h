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

struct CudaDriver {
  int (*init)(unsigned flags);
  int (*driver_get_version)(int* version);  // 1000 * major + 10 * minor
  int (*device_get)(int* device, int ordinal);
  int (*device_get_attribute)(int* value, int attribute, int device);
  int (*device_get_pci_bus_id)(char* text, int bytes, int device);
  int (*device_primary_ctx_retain)(CudaContext* context, int device);
  int (*ctx_push_current)(CudaContext context);
  int (*ctx_pop_current)(CudaContext* context);
  int (*ctx_get_stream_priority_range)(int* least, int* greatest);
  // Of the current context. Null before CUDA 12.1.
  int (*ctx_get_flags)(unsigned* flags);
  int (*ctx_set_flags)(unsigned flags);

  int (*stream_create_with_priority)(CudaStream* stream, unsigned flags, int priority);
  int (*stream_destroy)(CudaStream stream);
  int (*stream_is_capturing)(CudaStream stream, int* status);
  int (*stream_wait_event)(CudaStream stream, CudaEvent event, unsigned flags);
  int (*stream_wait_value64)(CudaStream stream, DeviceAddress address, uint64_t value, unsigned flags);
  int (*stream_write_value64)(CudaStream stream, DeviceAddress address, uint64_t value, unsigned flags);
  // Runs up to 255 operations in their order. Null if the driver has no such call.
  int (*stream_batch_mem_op)(CudaStream stream, unsigned count, BatchedOperation* operations, unsigned flags);

  int (*event_create)(CudaEvent* event, unsigned flags);
  int (*event_destroy)(CudaEvent event);
  int (*event_record)(CudaEvent event, CudaStream stream);
  int (*event_query)(CudaEvent event);
  int (*event_elapsed_time)(float* milliseconds, CudaEvent from, CudaEvent to);

  int (*mem_get_info)(size_t* free_bytes, size_t* total_bytes);
  int (*mem_host_alloc)(void** memory, size_t bytes, unsigned flags);
  int (*memcpy_async)(DeviceAddress destination, DeviceAddress source, size_t bytes, CudaStream stream);
  int (*memset_d8_async)(DeviceAddress destination, unsigned char value, size_t bytes, CudaStream stream);

  // Virtual memory management.
  int (*mem_get_granularity)(size_t* bytes, const AllocationProperties* properties, int option);
  int (*mem_address_reserve)(DeviceAddress* address, size_t bytes, size_t alignment, DeviceAddress wanted,
                             uint64_t flags);
  int (*mem_address_free)(DeviceAddress address, size_t bytes);
  int (*mem_create)(MemoryHandle* handle, size_t bytes, const AllocationProperties* properties, uint64_t flags);
  int (*mem_release)(MemoryHandle handle);
  int (*mem_map)(DeviceAddress address, size_t bytes, size_t offset, MemoryHandle handle, uint64_t flags);
  int (*mem_unmap)(DeviceAddress address, size_t bytes);
  int (*mem_set_access)(DeviceAddress address, size_t bytes, const MemoryAccess* access, size_t count);
  // `shareable`: an int of kHandleFile, kFabricHandleBytes of kHandleFabric.
  int (*mem_export)(void* shareable, MemoryHandle handle, int handle_type, uint64_t flags);
  // `shareable`: the file descriptor itself, or the address of the bytes.
  int (*mem_import)(MemoryHandle* handle, void* shareable, int handle_type);

  // Memory of several devices behind one address. Null before CUDA 12.1.
  int (*multicast_create)(MemoryHandle* handle, const MulticastProperties* properties);
  int (*multicast_get_granularity)(size_t* bytes, const MulticastProperties* properties, int option);
  int (*multicast_add_device)(MemoryHandle handle, int device);
  int (*multicast_bind_mem)(MemoryHandle handle, size_t offset, MemoryHandle memory, size_t memory_offset, size_t bytes,
                            uint64_t flags);
  int (*multicast_unbind)(MemoryHandle handle, int device, size_t offset, size_t bytes);

  int (*module_load_data)(CudaModule* module, const void* image);
  int (*module_get_function)(CudaFunction* function, CudaModule module, const char* name);
  // Null before CUDA 11.8.
  int (*launch_kernel_ex)(const LaunchConfig* config, CudaFunction function, void** parameters, void** extra);
  int (*launch_kernel)(CudaFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                       unsigned block_y, unsigned block_z, unsigned shared_bytes, CudaStream stream, void** parameters,
                       void** extra);

  int (*get_error_name)(int error, const char** name);
};

// Opens `library` (normally "libcuda.so.1") and fills the table. Error if it does not open or lacks a call. Does not
// call into the driver.
Result<CudaDriver> LoadCudaDriver(const std::string& library);

// Ok, or `what` with the name of the error.
Status CudaStatus(const CudaDriver& cuda, int result, const std::string& what);

inline DeviceAddress AddressOf(const void* pointer) { return reinterpret_cast<DeviceAddress>(pointer); }

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_CUDA_DRIVER_H_
