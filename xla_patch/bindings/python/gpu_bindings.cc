#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "xla_patch/bindings/ffi/gpu/handlers.h"
#include "xla_patch/bindings/python/bindings.h"
#include "xla_patch/nvshmem/gpu/bootstrap.h"
#include "xla_patch/nvshmem/gpu/nvrtc.h"
#include "xla_patch/nvshmem/gpu/reduction_kernels.h"
#include "xla_patch/nvshmem/loader.h"
#include "xla_patch/options/values.h"
#include "xla_patch/runtime/gpu_recording.h"
#include "xla_patch/runtime/job_rounds.h"
#include "xla_patch/thunks/gpu/gpu_process.h"
#include "xla_patch/thunks/gpu/gpu_runtime.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {
namespace {

namespace nb = nanobind;

// Runs `call` without the GIL: it may wait for other processes.
template <typename Call>
auto CallWithoutGil(Call call) {
  nb::gil_scoped_release release;
  return call();
}

gpu::HeapProvider ParseHeap(const std::string& name);
gpu::Puts ParsePuts(const std::string& name);
GpuPermute ParsePermute(const std::string& word);

nb::dict Open(const std::vector<std::string>& nvshmem_candidates, int device, const std::string& cuda_library,
              const std::string& puts, const std::string& permute) {
  const GpuFacts facts = ValueOrRuntimeError(CallWithoutGil([&, by = ParsePuts(puts), carrier = ParsePermute(permute)] {
    return GpuProcess::Get().Open({cuda_library, nvshmem_candidates, device, by, carrier});
  }));
  nb::dict dict;
  dict["nvshmem_path"] = facts.nvshmem_path;
  dict["nvshmem_version"] = facts.nvshmem_version;
  dict["nvshmem_error"] = facts.nvshmem_error;
  dict["driver_version"] = facts.driver_version;
  dict["compute_capability"] = nb::make_tuple(facts.compute_major, facts.compute_minor);
  dict["multiprocessors"] = facts.multiprocessors;
  dict["can_copy_permutes"] = facts.can_copy_permutes;
  dict["free_bytes"] = facts.free_bytes;
  return dict;
}

nb::bytes Compile(const std::string& source, std::pair<int, int> compute_capability,
                  const std::vector<std::string>& nvrtc_candidates) {
  const std::string image = ValueOrRuntimeError(CallWithoutGil([&] {
    return gpu::CompileKernels(nvrtc_candidates, source.c_str(),
                               compute_capability.first * 10 + compute_capability.second);
  }));
  return nb::bytes(image.data(), image.size());
}

// Members are (process, host, bus id, IMEX channels, free bytes).
std::string CheckWorld(const std::vector<std::tuple<int, std::string, std::string, int, size_t>>& members,
                       size_t heap_bytes, const std::string& heap) {
  std::vector<gpu::WorldMember> all;
  all.reserve(members.size());
  for (const auto& [process, host, bus_id, imex_channels, free_bytes] : members) {
    all.push_back({process, host, bus_id, imex_channels, free_bytes});
  }
  return gpu::CheckWorld(all, heap_bytes, ParseHeap(heap)).message();
}

nb::bytes UniqueId() {
  const std::string id = ValueOrRuntimeError(CallWithoutGil([] { return GpuProcess::Get().UniqueId(); }));
  return nb::bytes(id.data(), id.size());
}

gpu::HeapProvider ParseHeap(const std::string& name) {
  if (name == "nvshmem") return gpu::HeapProvider::kNvshmem;
  if (name == "driver") return gpu::HeapProvider::kDriver;
  throw nb::value_error(("unknown heap \"" + name + "\": nvshmem or driver").c_str());
}

gpu::MemorySharing ParseSharing(const std::string& name) {
  if (name == "none") return gpu::MemorySharing::kNone;
  if (name == "files") return gpu::MemorySharing::kFiles;
  if (name == "fabric") return gpu::MemorySharing::kFabric;
  throw nb::value_error(("unknown sharing \"" + name + "\": none, files or fabric").c_str());
}

// The runtime of a CUDA device; none: the one that was opened first.
GpuRuntime& OpenedGpu(std::optional<int> device) {
  const std::vector<GpuRuntime*>& devices = GpuProcess::Get().devices();
  GpuRuntime* const found =
      device.has_value() ? GpuProcess::Get().Find(*device) : (devices.empty() ? nullptr : devices.front());
  if (found == nullptr) throw std::runtime_error("the GPU path of this process is not open");
  return *found;
}

gpu::Puts ParsePuts(const std::string& name) {
  if (name == "nvshmem") return gpu::Puts::kNvshmem;
  if (name == "driver") return gpu::Puts::kDriver;
  throw nb::value_error(("unknown puts \"" + name + "\": nvshmem or driver").c_str());
}

GpuPermute ParsePermute(const std::string& word) {
  if (const auto found = GpuPermuteNamed(word); found.has_value()) return *found;
  throw nb::value_error(("unknown permute \"" + word + "\": auto, kernel or copies").c_str());
}

std::pair<int, int> KernelReductionOf(const std::string& reduction, const std::string& dtype) {
  const std::optional<ReductionKind> kind = ReductionNamed(reduction);
  const std::optional<ElementType> type = ElementTypeNamed(dtype);
  const auto found = kind.has_value() && type.has_value() ? gpu::FindKernelReduction(*type, *kind) : std::nullopt;
  if (!found.has_value()) {
    throw nb::value_error(("the GPU path has no reduction \"" + reduction + "\" of " + dtype).c_str());
  }
  return {found->elements, static_cast<int>(found->kind)};
}

void LoadKernels(const nb::bytes& kernels, std::optional<int> device) {
  const std::string image(kernels.c_str(), kernels.size());
  GpuRuntime& gpu = OpenedGpu(device);
  RuntimeErrorUnlessOk(CallWithoutGil([&] { return gpu.LoadKernels(image); }));
}

size_t Start(int pe, int n_pes, const nb::bytes& unique_id, size_t arena_bytes, const std::string& puts,
             double deadline_s, const std::string& permute, int multiprocessors, bool multimem, bool pcie, bool timed,
             std::optional<int> device, std::optional<int> heap) {
  GpuRuntime& gpu = OpenedGpu(device);
  GpuStartOptions options;
  options.pe = pe;
  options.n_pes = n_pes;
  options.unique_id.assign(unique_id.c_str(), unique_id.size());
  options.arena_bytes = arena_bytes;
  options.puts = ParsePuts(puts);
  options.permute = ParsePermute(permute);
  options.multiprocessors = multiprocessors;
  options.multimem = multimem;
  options.packet_bytes = pcie ? gpu::kPacketBytesOverPcie : gpu::kPacketBytesOverNvlink;
  options.deadline = TimeLimit(deadline_s);
  options.timed = timed;
  if (heap.has_value()) {
    options.heap = GpuProcess::Get().HeapOf(*heap);
    if (options.heap == nullptr) throw std::runtime_error("there is no driver heap of world " + std::to_string(*heap));
  }
  return ValueOrRuntimeError(CallWithoutGil([&] { return gpu.Start(options); }));
}

// `own`: (PE of the world, CUDA device).
std::vector<std::pair<int, nb::bytes>> MakeHeap(int world, const std::vector<std::pair<int, int>>& own, int n_pes,
                                                size_t bytes, const std::string& sharing, bool multicast) {
  gpu::DriverHeap::Options options;
  options.multicast = multicast;
  for (const auto& [pe, device] : own) options.own.push_back({pe, device});
  options.n_pes = n_pes;
  options.bytes = bytes;
  options.sharing = ParseSharing(sharing);
  const auto shared = ValueOrRuntimeError(CallWithoutGil([&] { return GpuProcess::Get().MakeHeap(world, options); }));
  std::vector<std::pair<int, nb::bytes>> objects;
  objects.reserve(shared.size());
  for (const auto& [object, handle] : shared) objects.emplace_back(object, nb::bytes(handle.data(), handle.size()));
  return objects;
}

std::string JoinHeap(int world, const std::vector<std::pair<int, nb::bytes>>& imported) {
  gpu::SharedMemory objects;
  objects.reserve(imported.size());
  for (const auto& [object, handle] : imported) {
    objects.emplace_back(object, std::string(handle.c_str(), handle.size()));
  }
  return ValueOrRuntimeError(CallWithoutGil([&] { return GpuProcess::Get().JoinHeap(world, objects); }));
}

void OpenMulticast(int world) {
  RuntimeErrorUnlessOk(CallWithoutGil([&] { return GpuProcess::Get().OpenMulticast(world); }));
}

// `worlds`: by CUDA device.
void AdmitTopology(const std::map<int, std::vector<int>>& worlds, int64_t topology_fingerprint) {
  for (const auto& [device, world] : worlds) OpenedGpu(device).SetWorld(world);
  GpuProcess::Get().Admit(topology_fingerprint);
}

std::pair<uint64_t, uint64_t> InGraphs() {
  std::pair<uint64_t, uint64_t> sum{0, 0};
  for (GpuRuntime* const gpu : GpuProcess::Get().devices()) {
    if (!gpu->started()) continue;
    const gpu::Transfers::InGraphs found = gpu->transfers().in_graphs();
    sum.first += found.captured;
    sum.second += found.run;
  }
  return sum;
}

bool HasMulticast() {
  const std::vector<GpuRuntime*>& devices = GpuProcess::Get().devices();
  return !devices.empty() &&
         std::all_of(devices.begin(), devices.end(), [](const GpuRuntime* gpu) { return gpu->has_multicast(); });
}

std::vector<std::string> ObserveGpu(int process, const std::vector<int>& processes, const std::vector<int>& pes,
                                    const std::string& record_directory, bool statistics,
                                    const std::string& trace_file) {
  return StartGpuObserver({record_directory, statistics, trace_file, /*on_gpu=*/true}, process, processes, pes);
}

// A store of python/xla_shmem/runtime/store.py. Its exceptions go through.
class PythonStore : public JobStore {
 public:
  explicit PythonStore(nb::object store) : store_(std::move(store)) {}

  Status Set(const std::string& key, const std::string& value) override {
    store_.attr("set")(key, value);
    return {};
  }
  Result<std::optional<std::string>> Wait(const std::string& key, std::chrono::milliseconds time) override {
    try {
      return std::optional<std::string>(
          nb::cast<std::string>(store_.attr("wait")(key, static_cast<double>(time.count()) / 1000)));
    } catch (const nb::python_error& error) {
      if (!error.matches(PyExc_TimeoutError)) throw;
      return std::optional<std::string>();
    }
  }
  std::optional<std::string> Get(const std::string& key) override {
    return nb::cast<std::optional<std::string>>(store_.attr("get")(key));
  }
  Result<std::string> Propose(const std::string& key, const std::string& value) override {
    return nb::cast<std::string>(store_.attr("propose")(key, value));
  }

 private:
  nb::object store_;
};

std::pair<std::string, std::vector<std::string>> AgreeInJob(nb::object store, int process, int processes,
                                                            const std::string& prefix, double patience_s,
                                                            const std::string& error, const std::string& agreement,
                                                            const std::string& facts) {
  const auto patience = std::chrono::milliseconds(static_cast<int64_t>(patience_s * 1000));
  const JobRounds rounds(process, processes, std::make_shared<PythonStore>(std::move(store)), prefix, patience);
  const Result<JobAnswer> own = error.empty() ? JobAnswer{facts, agreement} : Result<JobAnswer>(Status::Error(error));
  const Result<std::vector<std::string>> agreed = rounds.Agree("open", own);
  if (!agreed.ok()) return {agreed.message(), {}};
  return {"", *agreed};
}

void SetAdmitHook(nb::callable hook) {
  // Leaked on purpose: XLA may load an executable while the interpreter shuts down.
  auto* kept = new nb::object(std::move(hook));
  GpuProcess::Get().SetAdmitHook([kept] {
    nb::gil_scoped_acquire acquire;
    try {
      (*kept)();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): see the binding's docstring
    }
  });
}

nb::dict CudaHandlers() {
  nb::dict handlers;
  for (const GpuHandler& handler : GpuHandlers()) {
    handlers[handler.target.c_str()] = HandlerStages(GpuInstantiateHandler, handler.execute);
  }
  return handlers;
}

nb::dict OpenNvshmem(const std::vector<std::string>& candidates) {
  const NvshmemLibrary library = ValueOrRuntimeError(CallWithoutGil([&] { return LoadNvshmem(candidates); }));
  nb::dict found;
  found["path"] = library.path;
  found["version"] = nb::make_tuple(library.major, library.minor, library.patch);
  return found;
}

void BindRuntime(nb::module_& m) {
  m.def("gpu_open", &Open, nb::arg("nvshmem_candidates"), nb::arg("device"), nb::arg("cuda_library") = "libcuda.so.1",
        nb::kw_only(), nb::arg("puts") = "driver", nb::arg("permute") = "auto",
        "Opens the driver, CUDA device `device` and, with candidates, NVSHMEM. Returns their facts. Raises "
        "RuntimeError.");
  m.def("gpu_unique_id", &UniqueId, "A unique id for an NVSHMEM world. Raises RuntimeError.");
  m.def("gpu_start", &Start, nb::arg("pe"), nb::arg("n_pes"), nb::arg("unique_id"), nb::arg("arena_bytes"),
        nb::arg("puts"), nb::arg("deadline_s"), nb::kw_only(), nb::arg("permute") = "auto",
        nb::arg("multiprocessors") = 0, nb::arg("multimem") = false, nb::arg("pcie") = false, nb::arg("timed") = false,
        nb::arg("device") = nb::none(), nb::arg("heap") = nb::none(),
        "Starts a device: allocates the symmetric arena and returns its offset in the heap, which is that of world "
        "`heap` (gpu_join_heap), or NVSHMEM's, whose world it joins. Raises RuntimeError.");
  m.def("gpu_make_heap", &MakeHeap, nb::arg("world"), nb::arg("own"), nb::arg("n_pes"), nb::arg("bytes"),
        nb::arg("sharing"), nb::arg("multicast") = false,
        "Makes the memory of this process's PEs of a world; returns what the others import. Raises RuntimeError.");
  m.def("gpu_join_heap", &JoinHeap, nb::arg("world"), nb::arg("imported"),
        "Maps the memory of all PEs of a world. Returns \"\" or why this process cannot have the multicast memory that "
        "`gpu_make_heap` was asked for. Raises RuntimeError.");
  m.def("gpu_open_multicast", &OpenMulticast, nb::arg("world"),
        "Makes the multicast memory of a world in whose processes `gpu_join_heap` has returned \"\". Raises "
        "RuntimeError.");
  m.def(
      "gpu_drop_heaps", [] { CallWithoutGil([] { GpuProcess::Get().DropHeaps(); }); },
      "Gives the driver heaps back, if the job does not use them.");
  m.def(
      "gpu_observe", &ObserveGpu, nb::arg("process"), nb::arg("processes"), nb::arg("pes"), nb::kw_only(),
      nb::arg("record_directory"), nb::arg("statistics"), nb::arg("trace_file"),
      "Starts to record the collectives of this process's GPUs. Returns a sentence for each part that does not work.");
  m.def(
      "gpu_report", [] { CallWithoutGil([] { ReportGpuObserver(); }); },
      "Prints the statistics of the GPU, once, and writes the trace so far.");
  m.def("gpu_in_graphs", &InGraphs,
        "Collectives that CUDA graphs have captured on this process's GPUs, and those that they have run.");
  m.def("gpu_admit", &AdmitTopology, nb::arg("worlds"), nb::arg("topology_fingerprint"),
        "Allows executables for this topology to run. `worlds`: by CUDA device, the job's PE of each PE of its world.");
  m.def(
      "set_gpu_admit_hook", &SetAdmitHook, nb::arg("hook"),
      "`hook()` is called when an executable is loaded before `gpu_admit`. Its exceptions are ignored: the executable "
      "may be for GPUs that this machine lacks, and reports that when it runs.");
  m.def("gpu_has_multicast", &HasMulticast, "Whether `gpu_start` with `multimem` has found multicast memory.");
  m.def(
      "gpu_use_multimem",
      [] {
        for (GpuRuntime* const gpu : GpuProcess::Get().devices()) gpu->UseMultimem();
      },
      "Reductions of all PEs go to the NVLink switch. All processes of the world have multicast memory and call this.");
}

void BindNvshmem(nb::module_& m) {
  m.def(
      "nvshmem_library", &OpenNvshmem, nb::arg("candidates"),
      "Opens the first of `candidates` that opens and keeps it open. Returns {\"path\", \"version\": (major, minor, "
      "patch)}. Does not initialise NVSHMEM. Raises RuntimeError, with everything that was tried, if none opens or the "
      "library cannot be used.");
  m.def("gpu_arena_bytes", &gpu::ArenaLayout::RecommendedBytes, nb::arg("n_pes"), nb::arg("multimem") = false,
        "Recommended bytes of symmetric memory for each of `n_pes` PEs.");
  m.def("nvshmem_world_settings", &gpu::WorldSettings, nb::arg("symmetric_bytes"), nb::arg("hosts"),
        nb::arg("multimem"), "NVSHMEM's variables for a world, by name.");
  m.def("nvshmem_heap_bytes", &gpu::HeapBytes, nb::arg("settings"), nb::arg("own_steps"),
        "Bytes that NVSHMEM's heap takes on each PE with these settings.");
  m.def("nvshmem_check_world", &CheckWorld, nb::arg("members"), nb::arg("heap_bytes"), nb::arg("heap") = "nvshmem",
        "\"\" or why no process of a world can start.");
  m.def("agree_in_job", &AgreeInJob, nb::arg("store"), nb::arg("process"), nb::arg("processes"), nb::arg("prefix"),
        nb::arg("patience_s"), nb::kw_only(), nb::arg("error"), nb::arg("agreement"), nb::arg("facts"),
        "Announces `facts`, one line, or the `error` for which this process cannot take part. Returns the same in all "
        "processes: why the job cannot start, \"\" if it can, and then the facts of each process.");
  m.def("host_identity", &gpu::HostIdentity, "Equal in processes that are on one host for NVSHMEM.");
  m.def("imex_channels", [] { return gpu::CountImexChannels(); }, "How many IMEX channels this process sees.");
  m.def("nvshmem_chosen_by_user", &gpu::ChosenByUser, nb::arg("environ"),
        "NVSHMEM's variables in `environ` that must be equal in all processes, as \"NAME=value NAME=value\".");
}

void BindDeviceCode(nb::module_& m) {
  m.def("kernel_source", [] { return std::string(gpu::kKernelSource); }, "CUDA source of the device code.");
  m.def("gpu_kernel_reduction", &KernelReductionOf, nb::arg("reduction"), nb::arg("dtype"),
        "The numbers by which the device code knows a reduction: elements and kind. Raises ValueError if it has none.");
  m.def("gpu_compile", &Compile, nb::arg("source"), nb::arg("compute_capability"), nb::arg("nvrtc_candidates"),
        "Compiles CUDA source with NVRTC for a GPU of this compute capability: cubin or PTX. Raises RuntimeError.");
  m.def("gpu_load_kernels", &LoadKernels, nb::arg("kernels"), nb::arg("device") = nb::none(),
        "Loads kernel_source, compiled for the opened device. Raises RuntimeError.");
}

}  // namespace

void BindGpuRuntime(nb::module_& m) {
  BindRuntime(m);
  BindNvshmem(m);
  BindDeviceCode(m);
  m.def("cuda_handlers", &CudaHandlers, "FFI targets of XLA:GPU by name, as cpu_handlers.");
}

}  // namespace xla_shmem
