// libcudart.so.13: the calls of the CUDA runtime that XLA:GPU makes, over the emulated driver.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#include <string>

#include "driver/named_kernels.h"

namespace {

constexpr int kVersion = 13000;

std::mutex& Mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

// Kernels that a program has linked, by the address that stands for them on the host. Their images are machine code,
// which the emulator does not run; it knows some of them by name.
std::map<const void*, std::string>& LinkedKernels() {
  static auto* kernels = new std::map<const void*, std::string>;
  return *kernels;
}

thread_local cudaError_t last_error = cudaSuccess;

cudaError_t Remembered(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

// The runtime's codes are those of the driver for all that the driver returns here.
cudaError_t Remembered(CUresult result) { return Remembered(static_cast<cudaError_t>(result)); }

// The runtime works in the primary context of the thread's device: device 0 unless the thread has set another.
CUresult MakeContextCurrent() {
  CUcontext context = nullptr;
  CUresult result = cuCtxGetCurrent(&context);
  if (result != CUDA_SUCCESS || context != nullptr) return result;
  result = cuDevicePrimaryCtxRetain(&context, 0);
  return result == CUDA_SUCCESS ? cuCtxSetCurrent(context) : result;
}

cudaError_t FindKernel(CUfunction* function, const void* symbol) {
  const std::lock_guard<std::mutex> lock(Mutex());
  const auto known = LinkedKernels().find(symbol);
  if (known == LinkedKernels().end()) return cudaErrorInvalidDeviceFunction;
  return static_cast<cudaError_t>(gpu_emulator_named_kernel(function, known->second.c_str()));
}

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void* image) { return static_cast<void**>(image); }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, void*, void*, void*, void*, int*) {
  const std::lock_guard<std::mutex> lock(Mutex());
  LinkedKernels()[host] = name;
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* symbol) {
  return Remembered(FindKernel(reinterpret_cast<CUfunction*>(function), symbol));
}
cudaError_t cudaLaunchKernel(const void* symbol, dim3 grid, dim3 block, void** parameters, size_t shared,
                             cudaStream_t stream) {
  CUfunction function = nullptr;
  const cudaError_t error = FindKernel(&function, symbol);
  if (error != cudaSuccess) return Remembered(error);
  const CUresult result = MakeContextCurrent();
  if (result != CUDA_SUCCESS) return Remembered(result);
  return Remembered(cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                   static_cast<unsigned>(shared), stream, parameters, nullptr));
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return Remembered(cudaErrorInvalidValue);
  *version = kVersion;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) { return Remembered(cuDriverGetVersion(version)); }
cudaError_t cudaGetDeviceCount(int* count) {
  const CUresult result = cuInit(0);
  return Remembered(result == CUDA_SUCCESS ? cuDeviceGetCount(count) : result);
}
cudaError_t cudaGetDevice(int* device) {
  if (device == nullptr) return Remembered(cudaErrorInvalidValue);
  CUcontext context = nullptr;
  cuCtxGetCurrent(&context);
  *device = 0;
  return context == nullptr ? cudaSuccess : Remembered(cuCtxGetDevice(device));
}
cudaError_t cudaSetDevice(int device) {
  CUdevice known = 0;
  CUcontext context = nullptr;
  CUresult result = cuDeviceGet(&known, device);
  if (result == CUDA_SUCCESS) result = cuDevicePrimaryCtxRetain(&context, known);
  return Remembered(result == CUDA_SUCCESS ? cuCtxSetCurrent(context) : result);
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return Remembered(cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attribute), device));
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return last_error; }
const char* cudaGetErrorName(cudaError_t error) {
  const char* name = nullptr;
  return cuGetErrorName(static_cast<CUresult>(error), &name) == CUDA_SUCCESS ? name : "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  const char* text = nullptr;
  return cuGetErrorString(static_cast<CUresult>(error), &text) == CUDA_SUCCESS ? text : "unrecognized error code";
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const CUresult result = MakeContextCurrent();
  return Remembered(result == CUDA_SUCCESS ? cuStreamSynchronize(stream) : result);
}
cudaError_t cudaDeviceSynchronize() {
  const CUresult result = MakeContextCurrent();
  return Remembered(result == CUDA_SUCCESS ? cuCtxSynchronize() : result);
}
// The driver tells by the addresses which way a copy goes, as the runtime does with cudaMemcpyDefault.
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  const CUresult result = MakeContextCurrent();
  if (result != CUDA_SUCCESS) return Remembered(result);
  return Remembered(
      cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), bytes, stream));
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  const CUresult result = MakeContextCurrent();
  if (result != CUDA_SUCCESS) return Remembered(result);
  return Remembered(
      cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(to), static_cast<unsigned char>(value), bytes, stream));
}

}  // extern "C"
