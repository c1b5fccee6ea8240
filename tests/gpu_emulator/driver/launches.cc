// Launches of kernels.
#include "driver/launches.h"

#include <cuda.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "driver/blocking.h"
#include "driver/handles.h"
#include "driver/log.h"
#include "driver/memory.h"
#include "driver/named_kernels.h"
#include "driver/objects.h"
#include "driver/scheduler.h"
#include "driver/settings.h"
#include "driver/streams.h"

namespace emulator {

namespace {

// Why the kernel of this thread was last refused an access.
thread_local std::string refusal;

bool MayKernelAccess(uint64_t address, size_t bytes, bool write, ptx::AccessibleRange* range) {
  refusal = MayAccess(address, bytes, write ? Use::kWrite : Use::kRead, WorkingDevice(), &range->begin, &range->end,
                      &range->remote);
  return refusal.empty();
}

}  // namespace

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
    const std::string name = "kernel " + function->name;
    const WorkName work(name.c_str());
    static std::once_flag once;
    std::call_once(once, [] { ptx::SetAccessCheck(MayKernelAccess); });
    refusal.clear();
    const std::string error = ptx::Launch(*function->kernel, grid, block, shared, arguments);
    if (error.empty()) return;
    const std::string of_device = "device " + std::to_string(WorkingDevice()) + ": " + error;
    FailContext(refusal.empty() ? of_device : of_device + ": " + refusal);
  };
}

namespace {

constexpr unsigned kSharedBytes = 48 << 10;  // without the attribute for more

// What a launch is refused for before it is enqueued.
CUresult CheckLaunch(CUfunction function, ptx::Dim grid, ptx::Dim block, unsigned shared, CUstream handle) {
  if (!IsLive(HandleKind::kFunction, function, "cuLaunchKernel")) return CUDA_ERROR_INVALID_HANDLE;
  CUstream stream = nullptr;
  const CUresult result = ResolveFor("cuLaunchKernel", handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (function->module != nullptr && function->module->device != stream->device) {
    Complain("kernel %s is loaded on device %d; its stream is one of device %d", function->name.c_str(),
             function->module->device, stream->device);
    return CUDA_ERROR_INVALID_HANDLE;
  }
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535 || threads == 0 || threads > 1024) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto allowed = function->attributes.find(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  if (shared > kSharedBytes && (allowed == function->attributes.end() || static_cast<int>(shared) > allowed->second)) {
    Complain(
        "kernel %s: %u bytes of dynamic shared memory, without "
        "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES for so much",
        function->name.c_str(), shared);
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

// An attribute that a launch ignores here, or why the driver or the emulator does not take it.
CUresult CheckAttribute(const CUlaunchAttribute& attribute, const char* kernel) {
  constexpr int kHopper = 90;
  const auto needs_hopper = [&](const char* what) {
    Complain("kernel %s: %s need compute capability 9.0", kernel, what);
    return CUDA_ERROR_NOT_SUPPORTED;
  };
  switch (attribute.id) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
      // The kernel may begin before the one before it has ended, and need not.
      return ComputeCapability() < kHopper ? needs_hopper("programmatic dependent launches") : CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      if (ComputeCapability() < kHopper) return needs_hopper("memory synchronization domains");
      return attribute.value.memSyncDomain <= CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE ? CUDA_SUCCESS
                                                                               : CUDA_ERROR_INVALID_VALUE;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION: {
      const auto& cluster = attribute.value.clusterDim;
      if (cluster.x <= 1 && cluster.y <= 1 && cluster.z <= 1) return CUDA_SUCCESS;
      Complain("refused: kernel %s launched in clusters", kernel);
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    default:
      Complain("refused: kernel %s launched with attribute %d", kernel, static_cast<int>(attribute.id));
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace

extern "C" {

CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, CUstream stream, void** parameters, void** extra) {
  const ptx::Dim grid{gx, gy, gz}, block{bx, by, bz};
  const CUresult result = CheckLaunch(function, grid, block, shared, stream);
  if (result != CUDA_SUCCESS) return result;
  TRACE("%s %s <<<(%u,%u,%u),(%u,%u,%u),%u>>>", __func__, function->name.c_str(), gx, gy, gz, bx, by, bz, shared);
  auto work = KernelWork(function, grid, block, shared, parameters, extra);
  if (work == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  MayLoad(function);
  return Enqueue(stream, CU_GRAPH_NODE_TYPE_KERNEL, std::move(work));
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUresult result = CheckAttribute(config->attrs[i], function->name.c_str());
    if (result != CUDA_SUCCESS) return result;
  }
  return cuLaunchKernel(function, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                        config->blockDimY, config->blockDimZ, config->sharedMemBytes, config->hStream, parameters,
                        extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                   unsigned bz, unsigned shared, CUstream stream, void** parameters) {
  return cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, nullptr);
}

}  // extern "C"

}  // namespace emulator
