// A libcuda.so.1 in front of the emulator's that has one fault; FAULTY_DRIVER names it. All other calls are the
// emulator's: this library needs that one, so the loader finds them there. EMULATED_DRIVER is its path.
//   short copies      a copy of 4 KiB or more leaves out its last byte
//   lost signals      a write of a signal word reports success and writes nothing
//   no KERNEL         a kernel whose name contains KERNEL reports success and computes nothing
//   refused CALL      the call ends with CUDA_ERROR_NOT_SUPPORTED
#include <cuda.h>
#include <dlfcn.h>

#include <cstdlib>
#include <string>

namespace {

constexpr size_t kShortFrom = 4096;

const std::string& Fault() {
  static const std::string fault = std::getenv("FAULTY_DRIVER") != nullptr ? std::getenv("FAULTY_DRIVER") : "";
  return fault;
}

template <typename Call>
Call* Behind(const char* name, Call*) {
  static void* const driver = dlopen(EMULATED_DRIVER, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Call*>(dlsym(driver, name));
}

size_t Copied(size_t bytes) { return Fault() == "short copies" && bytes >= kShortFrom ? bytes - 1 : bytes; }

bool Refused(const char* call) { return Fault() == std::string("refused ") + call; }

}  // namespace

// The call of the same name behind this one.
#define BEHIND(call) Behind(#call, &call)

extern "C" {

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (Refused("cuMemcpyAsync")) return CUDA_ERROR_NOT_SUPPORTED;
  return BEHIND(cuMemcpyAsync)(to, from, Copied(bytes), stream);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return BEHIND(cuMemcpyDtoDAsync_v2)(to, from, Copied(bytes), stream);
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr to, cuuint64_t value, unsigned flags) {
  if (Fault() == "lost signals") return CUDA_SUCCESS;
  return BEHIND(cuStreamWriteValue64_v2)(stream, to, value, flags);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void** parameters,
                        void** extra) {
  if (Refused("cuLaunchKernel")) return CUDA_ERROR_NOT_SUPPORTED;
  if (Fault().rfind("no ", 0) == 0) {
    const char* name = "";
    BEHIND(cuFuncGetName)(&name, function);
    if (std::string(name).find(Fault().substr(3)) != std::string::npos) return CUDA_SUCCESS;
  }
  return BEHIND(cuLaunchKernel)(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, parameters,
                                extra);
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  const CUresult result = BEHIND(cuStreamEndCapture)(stream, graph);
  return Refused("cuStreamEndCapture") ? CUDA_ERROR_NOT_SUPPORTED : result;
}

CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  return Refused("cuGraphLaunch") ? CUDA_ERROR_NOT_SUPPORTED : BEHIND(cuGraphLaunch)(graph, stream);
}

CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent begin, CUevent end) {
  if (Refused("cuEventElapsedTime_v2")) return CUDA_ERROR_NOT_SUPPORTED;
  return BEHIND(cuEventElapsedTime_v2)(milliseconds, begin, end);
}

}  // extern "C"
