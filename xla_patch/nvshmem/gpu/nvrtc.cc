#include "xla_patch/nvshmem/gpu/nvrtc.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <type_traits>

namespace xla_shmem::gpu {
namespace {

using Program = void*;  // nvrtcProgram

// Of the calls made here the one that came last, in CUDA 11.2.
constexpr char kYoungestCall[] = "nvrtcGetNumSupportedArchs";

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

bool Load(const std::vector<std::string>& candidates, Nvrtc* nvrtc, std::string* error) {
  void* handle = nullptr;
  std::string failures;
  for (const std::string& candidate : candidates) {
    handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    const std::string failure = handle == nullptr                         ? dlerror()
                                : dlsym(handle, kYoungestCall) == nullptr ? candidate + " has no " + kYoungestCall
                                                                          : "";
    if (failure.empty()) break;
    if (handle != nullptr) dlclose(handle);
    handle = nullptr;
    failures += (failures.empty() ? "" : "; ") + failure;
  }
  if (handle == nullptr) {
    *error = "no NVRTC found (" + (failures.empty() ? "nothing to try" : failures) +
             "): install it with `pip install nvidia-cuda-nvrtc` (CUDA 13) or `pip install nvidia-cuda-nvrtc-cu12`";
    return false;
  }
  std::string missing;
  const auto read = [&](const char* name, auto** slot) {
    void* symbol = dlsym(handle, name);
    if (symbol == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(name);
    *slot = reinterpret_cast<std::remove_reference_t<decltype(*slot)>>(symbol);
  };
  read("nvrtcGetErrorString", &nvrtc->error_string);
  read("nvrtcGetNumSupportedArchs", &nvrtc->num_supported_archs);
  read("nvrtcGetSupportedArchs", &nvrtc->supported_archs);
  read("nvrtcCreateProgram", &nvrtc->create_program);
  read("nvrtcDestroyProgram", &nvrtc->destroy_program);
  read("nvrtcCompileProgram", &nvrtc->compile_program);
  read("nvrtcGetCUBINSize", &nvrtc->cubin_size);
  read("nvrtcGetCUBIN", &nvrtc->cubin);
  read("nvrtcGetPTXSize", &nvrtc->ptx_size);
  read("nvrtcGetPTX", &nvrtc->ptx);
  read("nvrtcGetProgramLogSize", &nvrtc->log_size);
  read("nvrtcGetProgramLog", &nvrtc->log);
  if (missing.empty()) return true;
  *error = "this NVRTC lacks " + missing + "; CUDA 12 or 13 is needed";
  return false;
}

// "sm_90", or "compute_90" if the driver has to finish for a younger GPU; "" with `error` if the GPU is too old.
std::string Target(const Nvrtc& nvrtc, int architecture, std::string* error) {
  int count = 0;
  int result = nvrtc.num_supported_archs(&count);
  std::vector<int> supported(count);
  if (result == 0) result = nvrtc.supported_archs(supported.data());
  if (result != 0 || supported.empty()) {
    *error = std::string("NVRTC does not say what it compiles for: ") + nvrtc.error_string(result);
    return "";
  }
  std::sort(supported.begin(), supported.end());
  const auto above = std::upper_bound(supported.begin(), supported.end(), architecture);
  if (above == supported.begin()) {
    const auto dotted = [](int value) { return std::to_string(value / 10) + "." + std::to_string(value % 10); };
    *error = "this NVRTC compiles for compute capabilities from " + dotted(supported.front()) + ", the GPU has " +
             dotted(architecture) + ": install the nvidia-cuda-nvrtc wheel of an older CUDA";
    return "";
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

bool CompileKernels(const std::vector<std::string>& candidates, const char* source, int architecture,
                    std::string* image, std::string* error) {
  Nvrtc nvrtc{};
  if (!Load(candidates, &nvrtc, error)) return false;
  const std::string target = Target(nvrtc, architecture, error);
  if (target.empty()) return false;
  Program program = nullptr;
  int result = nvrtc.create_program(&program, source, "kernels.cu", 0, nullptr, nullptr);
  if (result != 0) {
    *error = std::string("nvrtcCreateProgram: ") + nvrtc.error_string(result);
    return false;
  }
  const std::string option = "--gpu-architecture=" + target;
  const char* const options[] = {option.c_str(), "--std=c++17"};
  result = nvrtc.compile_program(program, 2, options);
  const bool cubin = target.rfind("sm_", 0) == 0;
  if (result != 0) {
    const std::string log = Read(nvrtc.log_size, nvrtc.log, program);
    *error = "NVRTC refuses kernels.cu for " + target + ": " + log.substr(0, log.find('\0'));  // it counts the NUL
  } else {
    *image = cubin ? Read(nvrtc.cubin_size, nvrtc.cubin, program) : Read(nvrtc.ptx_size, nvrtc.ptx, program);
    if (image->empty()) *error = "NVRTC gives no result for kernels.cu and " + target;
  }
  nvrtc.destroy_program(&program);
  return result == 0 && !image->empty();
}

}  // namespace xla_shmem::gpu
