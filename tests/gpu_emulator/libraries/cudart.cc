// The few calls of the CUDA runtime that XLA:GPU makes, over the emulated driver: libcudart.so.13 of our own.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

extern "C" int gpu_emulator_refused(const char* name) {
  if (const char* path = getenv("GPU_EMULATOR_LOG")) {
    FILE* f = strcmp(path, "-") == 0 ? stderr : fopen(path, "a");
    if (f != nullptr) {
      fprintf(f, "[%d] refused: %s has no behaviour\n", getpid(), name);
      if (f != stderr) fclose(f);
    }
  }
  return cudaErrorNotSupported;
}
namespace {
std::mutex& Mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
std::map<const void*, std::string>& Names() {
  static auto* names = new std::map<const void*, std::string>;
  return *names;
}
cudaError_t Translated(CUresult result) { return static_cast<cudaError_t>(result); }  // the codes used here agree
}  // namespace
extern "C" {
// Kernels linked into XLA: their images are machine code, so they are names only.
void** __cudaRegisterFatBinary(void* image) { return static_cast<void**>(image); }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, void*, void*, void*, void*, int*) {
  const std::lock_guard<std::mutex> lock(Mutex());
  Names()[host] = name;
}
CUresult gpu_emulator_named_kernel(CUfunction* function, const char* name);
cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* symbol) {
  const std::lock_guard<std::mutex> lock(Mutex());
  const auto at = Names().find(symbol);
  if (at == Names().end()) return cudaErrorInvalidDeviceFunction;
  return Translated(gpu_emulator_named_kernel(reinterpret_cast<CUfunction*>(function), at->second.c_str()));
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) { return Translated(cuDriverGetVersion(version)); }
cudaError_t cudaGetDeviceCount(int* count) { return Translated(cuDeviceGetCount(count)); }
cudaError_t cudaGetDevice(int* device) {
  CUdevice current = 0;
  if (cuCtxGetDevice(&current) != CUDA_SUCCESS) current = 0;
  return *device = current, cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  CUcontext context = nullptr;
  cuDevicePrimaryCtxRetain(&context, device);
  return Translated(cuCtxSetCurrent(context));
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t error) { return error == cudaSuccess ? "no error" : "emulated CUDA error"; }
const char* cudaGetErrorName(cudaError_t error) { return error == cudaSuccess ? "cudaSuccess" : "cudaError"; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return Translated(cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attribute), device));
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return Translated(cuStreamSynchronize(stream)); }
cudaError_t cudaDeviceSynchronize() { return Translated(cuCtxSynchronize()); }
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return Translated(
      cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), bytes, stream));
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return Translated(
      cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(to), static_cast<unsigned char>(value), bytes, stream));
}
}
