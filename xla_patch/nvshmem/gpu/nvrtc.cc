#include "xla_patch/nvshmem/gpu/nvrtc.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>

#include "xla_patch/nvshmem/symbol_reader.h"

namespace xla_shmem::gpu {
namespace {

using Program = void*;  // nvrtcProgram

// The newest of the calls made here: since CUDA 11.2.
constexpr char kNewestCall[] = "nvrtcGetNumSupportedArchs";

// As in nvrtc.h of CUDA 12 and 13. Calls return an nvrtcResult, 0 for success.
struct Nvrtc {
  const char* (*error_string)(int result);
  int (*num_supported_archs)(int* count);
  int (*supported_archs)(int* architectures);
  int (*create_program)(Program* program, const char* source, const char* name, int headers, const char* const* texts,
                        const char* const* names);
  int (*destroy_program)(Program* program);
  int (*compile_program)(Program program, int options, const char* const* texts);
  int (*cubin_size)(Program program, size_t* bytes);
  int (*cubin)(Program program, char* content);
  int (*ptx_size)(Program program, size_t* bytes);
  int (*ptx)(Program program, char* content);
  int (*log_size)(Program program, size_t* bytes);
  int (*log)(Program program, char* content);
};

// NVRTC opens its library of built-in functions by name, and that of CUDA 13.0 does not look beside itself.
void OpenBuiltins(void* nvrtc, const std::string& path) {
  const std::size_t folder = path.rfind('/');
  const auto version = reinterpret_cast<int (*)(int* major, int* minor)>(dlsym(nvrtc, "nvrtcVersion"));
  int major = 0;
  int minor = 0;
  if (folder == std::string::npos || version == nullptr || version(&major, &minor) != 0) return;
  const std::string name = "libnvrtc-builtins.so." + std::to_string(major) + "." + std::to_string(minor);
  // Kept open. If it is not there, NVRTC says so.
  dlopen((path.substr(0, folder + 1) + name).c_str(), RTLD_NOW | RTLD_LOCAL);
}

Result<Nvrtc> Load(const std::vector<std::string>& candidates) {
  void* handle = nullptr;
  std::string failures;
  for (const std::string& candidate : candidates) {
    handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    const std::string failure = handle == nullptr                       ? dlerror()
                                : dlsym(handle, kNewestCall) == nullptr ? candidate + " has no " + kNewestCall
                                                                        : "";
    if (failure.empty()) {
      OpenBuiltins(handle, candidate);
      break;
    }
    if (handle != nullptr) dlclose(handle);
    handle = nullptr;
    failures += (failures.empty() ? "" : "; ") + failure;
  }
  if (handle == nullptr) {
    return Status::Error(
        "no NVRTC found (" + (failures.empty() ? "nothing to try" : failures) +
        "): install it with `pip install nvidia-cuda-nvrtc` (CUDA 13) or `pip install nvidia-cuda-nvrtc-cu12`");
  }
  Nvrtc nvrtc{};
  SymbolReader reader(handle);
  reader.Read("nvrtcGetErrorString", &nvrtc.error_string);
  reader.Read("nvrtcGetNumSupportedArchs", &nvrtc.num_supported_archs);
  reader.Read("nvrtcGetSupportedArchs", &nvrtc.supported_archs);
  reader.Read("nvrtcCreateProgram", &nvrtc.create_program);
  reader.Read("nvrtcDestroyProgram", &nvrtc.destroy_program);
  reader.Read("nvrtcCompileProgram", &nvrtc.compile_program);
  reader.Read("nvrtcGetCUBINSize", &nvrtc.cubin_size);
  reader.Read("nvrtcGetCUBIN", &nvrtc.cubin);
  reader.Read("nvrtcGetPTXSize", &nvrtc.ptx_size);
  reader.Read("nvrtcGetPTX", &nvrtc.ptx);
  reader.Read("nvrtcGetProgramLogSize", &nvrtc.log_size);
  reader.Read("nvrtcGetProgramLog", &nvrtc.log);
  if (reader.missing().empty()) return nvrtc;
  return Status::Error("this NVRTC lacks " + reader.missing() + "; CUDA 12 or 13 is needed");
}

// "sm_90", or "compute_90" if the GPU is newer and the driver has to finish. Error if the GPU is too old.
Result<std::string> Target(const Nvrtc& nvrtc, int architecture) {
  int count = 0;
  int result = nvrtc.num_supported_archs(&count);
  std::vector<int> supported(count);
  if (result == 0) result = nvrtc.supported_archs(supported.data());
  if (result != 0 || supported.empty()) {
    return Status::Error(std::string("NVRTC does not list the GPUs it compiles for: ") + nvrtc.error_string(result));
  }
  std::sort(supported.begin(), supported.end());
  const auto above = std::upper_bound(supported.begin(), supported.end(), architecture);
  if (above == supported.begin()) {
    const auto dotted = [](int value) { return std::to_string(value / 10) + "." + std::to_string(value % 10); };
    return Status::Error("this NVRTC compiles for compute capabilities from " + dotted(supported.front()) +
                         ", the GPU has " + dotted(architecture) +
                         ": install the nvidia-cuda-nvrtc wheel of an older CUDA");
  }
  const int nearest = *(above - 1);
  return (nearest == architecture ? "sm_" : "compute_") + std::to_string(nearest);
}

std::string Read(int (*size)(Program, size_t*), int (*content)(Program, char*), Program program) {
  size_t bytes = 0;
  if (size(program, &bytes) != 0) return "";
  std::string text(bytes, '\0');
  return content(program, text.data()) == 0 ? text : "";
}

}  // namespace

Result<std::string> CompileKernels(const std::vector<std::string>& candidates, const char* source, int architecture) {
  const Result<Nvrtc> loaded = Load(candidates);
  if (!loaded.ok()) return loaded.status();
  const Nvrtc& nvrtc = *loaded;
  const Result<std::string> target = Target(nvrtc, architecture);
  if (!target.ok()) return target.status();
  Program program = nullptr;
  int result = nvrtc.create_program(&program, source, "kernels.cu", 0, nullptr, nullptr);
  if (result != 0) return Status::Error(std::string("nvrtcCreateProgram: ") + nvrtc.error_string(result));
  const std::string option = "--gpu-architecture=" + *target;
  // Without fused multiply-adds, so that the bits are those of the CPU's reductions.
  const char* const options[] = {option.c_str(), "--std=c++17", "--fmad=false"};
  result = nvrtc.compile_program(program, static_cast<int>(std::size(options)), options);
  const bool cubin = target->rfind("sm_", 0) == 0;
  std::string image;
  std::string error;
  if (result != 0) {
    const std::string log = Read(nvrtc.log_size, nvrtc.log, program);
    // NVRTC counts the final NUL.
    error = "NVRTC does not compile kernels.cu for " + *target + ": " + log.substr(0, log.find('\0'));
  } else {
    image = cubin ? Read(nvrtc.cubin_size, nvrtc.cubin, program) : Read(nvrtc.ptx_size, nvrtc.ptx, program);
    if (image.empty()) error = "NVRTC returns nothing for kernels.cu and " + *target;
  }
  nvrtc.destroy_program(&program);
  if (!error.empty()) return Status::Error(std::move(error));
  return image;
}

}  // namespace xla_shmem::gpu
