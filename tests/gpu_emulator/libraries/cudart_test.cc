// The CUDA runtime's calls over the emulated driver.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <string>
#include <vector>

extern "C" void __cudaRegisterFunction(void**, const char*, char*, const char*, int, void*, void*, void*, void*, int*);

TEST_CASE("A thread's last error stays until it is asked for") {
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(cudaSetDevice(17) == cudaErrorInvalidDevice);
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("The runtime works in the primary context of device 0 by itself") {
  int device = -1;
  CHECK(cudaGetDevice(&device) == cudaSuccess);
  CHECK(device == 0);
  CHECK(cudaSetDevice(0) == cudaSuccess);
  CUdeviceptr pointer = 0;
  REQUIRE(cuMemAlloc(&pointer, 4) == CUDA_SUCCESS);
  void* memory = reinterpret_cast<void*>(pointer);
  CHECK(cudaMemsetAsync(memory, 7, 4, nullptr) == cudaSuccess);
  CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
  std::vector<char> bytes(4);
  CHECK(cuMemcpyDtoH(bytes.data(), pointer, 4) == CUDA_SUCCESS);
  CHECK(bytes == std::vector<char>(4, 7));
  CHECK(cuMemFree(pointer) == CUDA_SUCCESS);
}

TEST_CASE("Kernels that a program links are found by their symbol, others are not") {
  static const char symbol = 0, other = 0;
  __cudaRegisterFunction(nullptr, &symbol, nullptr, "_Z22RepeatBufferKernelImplPcll", 0, nullptr, nullptr, nullptr,
                         nullptr, nullptr);
  cudaFunction_t function = nullptr;
  CHECK(cudaGetFuncBySymbol(&function, &symbol) == cudaSuccess);
  CHECK(function != nullptr);
  CHECK(cudaGetFuncBySymbol(&function, &other) == cudaErrorInvalidDeviceFunction);
  CHECK(cudaGetLastError() == cudaErrorInvalidDeviceFunction);
}
