// Launches of kernels.
#include "driver/launches.h"

#include <cuda.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "driver/log.h"
#include "driver/named_kernels.h"
#include "driver/objects.h"
#include "driver/streams.h"

namespace emulator {

std::function<void()> KernelWork(CUfunction function, ptx::Dim grid, ptx::Dim block, unsigned shared, void** parameters,
                                 void** extra) {
  std::vector<char> arguments;
  if (function->kernel != nullptr) {
    if (parameters != nullptr) {
      arguments = ptx::PackArguments(*function->kernel, parameters);
    } else if (extra != nullptr) {
      const void* buffer = nullptr;
      size_t bytes = 0;
      for (int i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = extra[i + 1];
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) bytes = *static_cast<size_t*>(extra[i + 1]);
      }
      arguments.assign(static_cast<const char*>(buffer), static_cast<const char*>(buffer) + bytes);
    }
  }
  if (const Native* native = FindNative(function->name, function->module != nullptr)) {
    if (parameters == nullptr) Complain("refused: kernel %s without an array of parameters", native->name);
    if (parameters == nullptr) return nullptr;
    std::vector<uint64_t> values(native->bytes.size());
    for (size_t i = 0; i < values.size(); ++i) memcpy(&values[i], parameters[i], native->bytes[i]);
    return [=] { native->run(values); };
  }
  if (function->kernel == nullptr) {
    Complain("refused: kernel %s is machine code, and has no twin in named_kernels.cc", function->name.c_str());
    return nullptr;
  }
  return [=] {
    if (function->name == "busy") {  // gpu_check's delay: time passes, nothing is computed
      int64_t turns = 0;
      memcpy(&turns, arguments.data() + 8, 8);
      usleep(static_cast<useconds_t>(turns / 200));
      return;
    }
    const auto start = std::chrono::steady_clock::now();
    const std::string error = ptx::Launch(*function->kernel, grid, block, shared, arguments);
    TRACE("kernel %s <<<%u,%u>>> %.3f ms", function->name.c_str(), grid.x, block.x,
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    if (!error.empty()) {
      fprintf(stderr, "gpu_emulator: %s\n", error.c_str());
      failed = true;
    }
  };
}

extern "C" {
CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, CUstream stream, void** parameters, void** extra) {
  TRACE("cuLaunchKernel %s <<<(%u,%u,%u),(%u,%u,%u),%u>>>", function->name.c_str(), gx, gy, gz, bx, by, bz, shared);
  auto work = KernelWork(function, {gx, gy, gz}, {bx, by, bz}, shared, parameters, extra);
  if (work == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  return Enqueue(stream, CU_GRAPH_NODE_TYPE_KERNEL, std::move(work));
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  return cuLaunchKernel(function, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                        config->blockDimY, config->blockDimZ, config->sharedMemBytes, config->hStream, parameters,
                        extra);
}
CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                   unsigned bz, unsigned shared, CUstream stream, void** parameters) {
  return cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, nullptr);
}

// Libraries (what cudart uses for its own kernels).
CUresult cuLibraryLoadData(CUlibrary* library, const void* image, CUjit_option*, void**, unsigned, CUlibraryOption*,
                           void**, unsigned) {
  return cuModuleLoadData(reinterpret_cast<CUmodule*>(library), image);
}
CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  return *module = reinterpret_cast<CUmodule>(library), CUDA_SUCCESS;
}
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  return cuModuleGetFunction(reinterpret_cast<CUfunction*>(kernel), reinterpret_cast<CUmodule>(library), name);
}
CUresult cuLibraryUnload(CUlibrary) { return CUDA_SUCCESS; }
CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  return *function = reinterpret_cast<CUfunction>(kernel), CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace emulator
