#include "xla_patch/bindings/python/gpu_bindings.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "xla_patch/bindings/ffi/gpu_handlers.h"
#include "xla_patch/bindings/python/handler_capsules.h"
#include "xla_patch/nvshmem/gpu/kernel_source.h"
#include "xla_patch/nvshmem/gpu/nvrtc.h"
#include "xla_patch/thunks/gpu/gpu_runtime.h"

namespace xla_shmem {
namespace {

namespace nb = nanobind;

// Runs `call(&error)` without the GIL: it may wait for other processes.
template <typename Call>
void Run(Call call) {
  std::string error;
  bool ok;
  {
    nb::gil_scoped_release release;
    ok = call(&error);
  }
  if (!ok) throw std::runtime_error(error);
}

nb::dict Open(const std::vector<std::string>& nvshmem_candidates, int device, const std::string& cuda_library) {
  GpuFacts facts;
  Run([&](std::string* error) {
    return GpuRuntime::Get().Open({cuda_library, nvshmem_candidates, device}, &facts, error);
  });
  nb::dict dict;
  dict["nvshmem_path"] = facts.nvshmem_path;
  dict["nvshmem_version"] = facts.nvshmem_version;
  dict["driver_version"] = facts.driver_version;
  dict["compute_capability"] = nb::make_tuple(facts.compute_major, facts.compute_minor);
  return dict;
}

nb::bytes Compile(const std::string& source, std::pair<int, int> compute_capability,
                  const std::vector<std::string>& nvrtc_candidates) {
  std::string image;
  Run([&](std::string* error) {
    return gpu::CompileKernels(nvrtc_candidates, source.c_str(),
                               compute_capability.first * 10 + compute_capability.second, &image, error);
  });
  return nb::bytes(image.data(), image.size());
}

nb::bytes UniqueId() {
  std::string id;
  Run([&](std::string* error) { return GpuRuntime::Get().UniqueId(&id, error); });
  return nb::bytes(id.data(), id.size());
}

gpu::Puts ParsePuts(const std::string& name) {
  if (name == "nvshmem") return gpu::Puts::kNvshmem;
  if (name == "driver") return gpu::Puts::kDriver;
  throw nb::value_error(("unknown puts \"" + name + "\": nvshmem or driver").c_str());
}

bool ParseReduce(const std::string& name) {
  if (name == "teams") return true;
  if (name == "rings") return false;
  throw nb::value_error(("unknown reduce \"" + name + "\": rings or teams").c_str());
}

void Start(int pe, int n_pes, const nb::bytes& unique_id, size_t arena_bytes, const nb::bytes& kernels,
           const std::string& puts, const std::string& reduce, double deadline_s) {
  GpuStartOptions options;
  options.pe = pe;
  options.n_pes = n_pes;
  options.unique_id.assign(unique_id.c_str(), unique_id.size());
  options.arena_bytes = arena_bytes;
  options.kernels.assign(kernels.c_str(), kernels.size());
  options.puts = ParsePuts(puts);
  options.team_reductions = ParseReduce(reduce);
  options.deadline = std::chrono::nanoseconds(static_cast<int64_t>(deadline_s * 1e9));
  Run([&](std::string* error) { return GpuRuntime::Get().Start(options, error); });
}

void SetAdmitHook(nb::callable hook) {
  // Leaked on purpose: an executable may be loaded while the interpreter is going down.
  auto* kept = new nb::object(std::move(hook));
  GpuRuntime::Get().SetAdmitHook([kept] {
    nb::gil_scoped_acquire acquire;
    try {
      (*kept)();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): see the binding's text
    }
  });
}

nb::dict CudaHandlers() {
  nb::dict handlers;
  for (const GpuHandler& handler : GpuHandlers()) {
    handlers[handler.target] = HandlerStages(GpuInstantiateHandler, handler.execute);
  }
  return handlers;
}

}  // namespace

void BindGpuRuntime(nb::module_& m) {
  m.def("gpu_open", &Open, nb::arg("nvshmem_candidates"), nb::arg("device"), nb::arg("cuda_library") = "libcuda.so.1",
        "Opens driver, NVSHMEM and CUDA device `device`. Returns what was found. Raises RuntimeError.");
  m.def("gpu_unique_id", &UniqueId, "A unique id for an NVSHMEM world. Raises RuntimeError.");
  m.def("gpu_start", &Start, nb::arg("pe"), nb::arg("n_pes"), nb::arg("unique_id"), nb::arg("arena_bytes"),
        nb::arg("kernels"), nb::arg("puts"), nb::arg("reduce"), nb::arg("deadline_s"),
        "Joins the NVSHMEM world and takes the symmetric arena. Collective over the world. Raises RuntimeError.");
  m.def(
      "gpu_admit",
      [](std::vector<int> world, int64_t topology_fingerprint) {
        GpuRuntime::Get().Admit(std::move(world), topology_fingerprint);
      },
      nb::arg("world"), nb::arg("topology_fingerprint"),
      "Lets executables for this topology run. `world`: the job's PE of each PE of the NVSHMEM world.");
  m.def("set_gpu_admit_hook", &SetAdmitHook, nb::arg("hook"),
        "`hook()` is called when an executable is loaded before `gpu_admit`. What it raises is ignored: the executable "
        "may be for GPUs that are not there, and says so when it is run.");
  m.def("gpu_arena_bytes", &gpu::PairLayout::RecommendedBytes, nb::arg("n_pes"),
        "Bytes of symmetric memory that `n_pes` PEs have use for, each.");
  m.def("kernel_source", [] { return std::string(gpu::kKernelSource); }, "CUDA source of the device code.");
  m.def("gpu_compile", &Compile, nb::arg("source"), nb::arg("compute_capability"), nb::arg("nvrtc_candidates"),
        "CUDA source compiled by NVRTC for such a GPU, cubin or PTX. Raises RuntimeError.");
  m.def("cuda_handlers", &CudaHandlers, "FFI targets of XLA:GPU by name, as cpu_handlers.");
}

}  // namespace xla_shmem
