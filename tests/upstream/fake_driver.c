// A test double of the CUDA libraries. With it XLA starts as on a machine with GPUs and compiles, but cannot run
// programs.
//
// XLA opens these libraries at run time, and a missing function is an error. So this file has exactly the functions
// that XLA's client calls at its start. One object serves as libcuda, libcudart, libnvidia-ml and libcudnn.
// FAKE_DRIVER_DEVICES is the number of GPUs.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { kSuccess = 0, kInvalidDevice = 101, kOutOfMemory = 2, kVersion = 12080 };
static const size_t kMemory = (size_t)80 << 30;

static int DeviceCount(void) {
  const char* count = getenv("FAKE_DRIVER_DEVICES");
  return count == NULL ? 1 : atoi(count);
}

// Handles of streams and events must differ from each other and from null.
static void* NewHandle(void) {
  static uintptr_t last = 0x1000;
  return (void*)__atomic_add_fetch(&last, 0x100, __ATOMIC_RELAXED);
}

// Driver.
int cuInit(unsigned flags) { return kSuccess; }
int cuDriverGetVersion(int* version) { return *version = kVersion, kSuccess; }
int cuDeviceGetCount(int* count) { return *count = DeviceCount(), kSuccess; }
int cuDeviceGet(int* device, int ordinal) {
  return *device = ordinal, ordinal < DeviceCount() ? kSuccess : kInvalidDevice;
}
int cuDeviceGetName(char* name, int length, int device) { return snprintf(name, length, "fake GPU"), kSuccess; }
int cuDeviceTotalMem_v2(size_t* bytes, int device) { return *bytes = kMemory, kSuccess; }
int cuDeviceGetPCIBusId(char* id, int length, int device) {
  return snprintf(id, length, "0000:%02x:00.0", device), kSuccess;
}
int cuDeviceCanAccessPeer(int* can, int device, int peer) { return *can = 1, kSuccess; }

// XLA compiles for a given target configuration. It only checks that these numbers are plausible.
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  switch (attribute) {
    case 1:
    case 2:
    case 3:
      return *value = 1024, kSuccess;  // threads per block, block x and y
    case 4:
      return *value = 64, kSuccess;  // block z
    case 5:
      return *value = INT32_MAX, kSuccess;  // grid x
    case 6:
    case 7:
      return *value = 65535, kSuccess;  // grid y and z
    case 8:
      return *value = 48 << 10, kSuccess;  // shared memory per block
    case 10:
      return *value = 32, kSuccess;  // warp size
    case 12:
    case 82:
      return *value = 65536, kSuccess;  // registers per block, per multiprocessor
    case 13:
      return *value = 1980000, kSuccess;  // clock in kHz
    case 16:
      return *value = 132, kSuccess;  // multiprocessors
    case 38:
      return *value = 50 << 20, kSuccess;  // L2 cache
    case 39:
      return *value = 2048, kSuccess;  // threads per multiprocessor
    case 75:
      return *value = 9, kSuccess;  // compute capability, major
    case 81:
    case 97:
      return *value = 228 << 10, kSuccess;  // shared memory per multiprocessor, opt-in per block
    default:
      return *value = 0, kSuccess;  // virtual memory, multicast, RDMA: none
  }
}

static int contexts[64];
static __thread void* current_context;
int cuDevicePrimaryCtxRetain(void** context, int device) { return *context = &contexts[device], kSuccess; }
int cuDevicePrimaryCtxRelease_v2(int device) { return kSuccess; }
int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) { return *flags = 0, *active = 1, kSuccess; }
int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) { return kSuccess; }
int cuCtxSetCurrent(void* context) { return current_context = context, kSuccess; }
int cuCtxGetCurrent(void** context) { return *context = current_context, kSuccess; }
int cuCtxGetDevice(int* device) {
  return *device = current_context == NULL ? 0 : (int)((int*)current_context - contexts), kSuccess;
}
int cuCtxSynchronize(void) { return kSuccess; }
int cuCtxEnablePeerAccess(void* context, unsigned flags) { return kSuccess; }
int cuCtxGetStreamPriorityRange(int* least, int* greatest) { return *least = 0, *greatest = -5, kSuccess; }

int cuStreamCreate(void** stream, unsigned flags) { return *stream = NewHandle(), kSuccess; }
int cuStreamCreateWithPriority(void** stream, unsigned flags, int priority) { return *stream = NewHandle(), kSuccess; }
int cuStreamDestroy_v2(void* stream) { return kSuccess; }
int cuStreamSynchronize(void* stream) { return kSuccess; }
int cuStreamQuery(void* stream) { return kSuccess; }
int cuStreamWaitEvent(void* stream, void* event, unsigned flags) { return kSuccess; }
int cuEventCreate(void** event, unsigned flags) { return *event = NewHandle(), kSuccess; }
int cuEventDestroy_v2(void* event) { return kSuccess; }
int cuEventRecord(void* event, void* stream) { return kSuccess; }
int cuEventQuery(void* event) { return kSuccess; }
int cuEventSynchronize(void* event) { return kSuccess; }

static int Allocate(void** pointer, size_t bytes) {
  return (*pointer = malloc(bytes)) == NULL ? kOutOfMemory : kSuccess;
}
int cuMemGetInfo_v2(size_t* free, size_t* total) { return *free = *total = kMemory, kSuccess; }
int cuMemAlloc_v2(void** pointer, size_t bytes) { return Allocate(pointer, bytes); }
int cuMemFree_v2(void* pointer) { return free(pointer), kSuccess; }
int cuMemHostAlloc(void** pointer, size_t bytes, unsigned flags) { return Allocate(pointer, bytes); }
int cuMemFreeHost(void* pointer) { return free(pointer), kSuccess; }
int cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned flags) { return kSuccess; }
int cuMemHostUnregister(void* pointer) { return kSuccess; }
int cuGetErrorName(int error, const char** name) { return *name = "fake driver error", kSuccess; }
int cuGetErrorString(int error, const char** text) { return *text = "fake driver error", kSuccess; }

// Runtime.
int cudaGetDeviceCount(int* count) { return cuDeviceGetCount(count); }
int cudaRuntimeGetVersion(int* version) { return *version = kVersion, kSuccess; }
int cudaDriverGetVersion(int* version) { return *version = kVersion, kSuccess; }
int cudaGetLastError(void) { return kSuccess; }
int cudaPeekAtLastError(void) { return kSuccess; }
const char* cudaGetErrorName(int error) { return "fake driver error"; }
const char* cudaGetErrorString(int error) { return "fake driver error"; }

// Management library.
int nvmlInit_v2(void) { return kSuccess; }
int nvmlShutdown(void) { return kSuccess; }

// cuDNN: since 0.9.2 a client creates a handle even if no program needs it.
static int cudnn_handle;
int cudnnCreate(void** handle) { return *handle = &cudnn_handle, kSuccess; }
int cudnnDestroy(void* handle) { return kSuccess; }
size_t cudnnGetVersion(void) { return 92000; }
int cudnnGetProperty(int property, int* value) { return *value = property == 0 ? 9 : property == 1 ? 20 : 0, kSuccess; }
