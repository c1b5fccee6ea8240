// JAX's CUDA plugin made of the XLA:GPU of @xla, with the overlay where the patch puts it (test_jax_*.py).
//
// The wheel has all of PJRT's C functions for GPUs, but exports none. The patch adds calls to upstream's sources. Here
// upstream's exported functions are replaced: the dynamic linker takes those of this library, which make the same calls
// and go on to the wheel's.
#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/log/check.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "tests/overlay/unexported.h"
#include "xla/backends/gpu/shmem/shmem_backend_assignment.h"
#include "xla/backends/gpu/shmem/shmem_runtime.h"
#include "xla/backends/gpu/shmem/shmem_thunk_substitution.h"
#include "xla/backends/gpu/transforms/collectives/shmem/status_macros.h"
#include "xla/debug_options_flags.h"
#include "xla/ffi/api/c_api.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla/pjrt/pjrt_client.h"
#include "xla/pjrt/plugin/xla_gpu/xla_gpu_client_options.h"
#include "xla/pjrt/plugin/xla_gpu/xla_gpu_pjrt_client.h"
#include "xla/runtime/device_id.h"
#include "xla/runtime/process_id.h"
#include "xla/service/compilation_stats.h"
#include "xla/service/gpu/gpu_executable.h"
#include "xla/service/gpu_topology.h"
#include "xla_patch/bindings/ffi/gpu/handlers.h"
#include "xla_patch/thunks/gpu/gpu_process.h"
#include "xla_patch/thunks/gpu/gpu_runtime.h"
#include "xla_patch/thunks/gpu/transfers.h"
#include "xla_patch/types/collective_op.h"

namespace {

// What this library's function of the same name stands before.
template <typename Function>
Function* Upstream(const char* name) {
  void* const found = dlsym(RTLD_NEXT, name);
  QCHECK(found != nullptr) << name << " is not in this XLA";
  return reinterpret_cast<Function*>(found);
}

constexpr char kMakeClient[] = "_ZN3xla19GetXlaPjrtGpuClientENS_16GpuClientOptionsE";
using MakeClient = absl::StatusOr<std::unique_ptr<xla::PjRtClient>>(xla::GpuClientOptions);

// Whether this thread starts our runtime, which reads the flag.
thread_local bool is_starting = false;

std::atomic<uint64_t> num_runs{0};

// Counts the collectives that begin. XLA calls a handler with extensions to ask for its traits only.
template <size_t kIndex>
XLA_FFI_Error* (*counted)(XLA_FFI_CallFrame*) = nullptr;

template <size_t kIndex>
XLA_FFI_Error* Counted(XLA_FFI_CallFrame* frame) {
  if (frame->extension_start == nullptr) ++num_runs;
  return counted<kIndex>(frame);
}

// The done of a pair begins nothing, nor does the call that begins a program.
template <size_t kIndex>
void Count(xla_shmem::GpuHandler& handler) {
  if (absl::EndsWith(handler.target, "_done") || absl::string_view(handler.target) == xla_shmem::kMeetTarget) return;
  counted<kIndex> = std::exchange(handler.execute.in_graphs, &Counted<kIndex>);
}

// Start, done and whole call of each op, and the call that begins a program.
constexpr size_t kNumHandlers = 3 * std::size(xla_shmem::kCollectiveOps) + 1;

template <size_t... kIndices>
void CountRuns(std::index_sequence<kIndices...>) {
  auto& handlers = const_cast<std::vector<xla_shmem::GpuHandler>&>(xla_shmem::GpuHandlers());
  QCHECK_EQ(handlers.size(), kNumHandlers);
  (Count<kIndices>(handlers[kIndices]), ...);
}

}  // namespace

namespace xla {

// The flag of this wheel would also start upstream's NVSHMEM, which the patch takes out of cuda_executor.cc.
DebugOptions GetDebugOptionsFromFlags() {
  static auto* const upstream = Upstream<DebugOptions()>("_ZN3xla24GetDebugOptionsFromFlagsEv");
  DebugOptions options = upstream();
  if (!is_starting) options.set_xla_gpu_experimental_enable_nvshmem(false);
  return options;
}

// The patch starts the runtime while the client learns of its devices.
absl::StatusOr<std::unique_ptr<PjRtClient>> GetXlaPjrtGpuClient(GpuClientOptions options) {
  static auto* const upstream = Upstream<MakeClient>(kMakeClient);
  SHMEM_ASSIGN_OR_RETURN(std::unique_ptr<PjRtClient> client, upstream(options));
  absl::flat_hash_map<GlobalDeviceId, ProcessId> device_to_process;
  std::map<int, const PjRtDevice*> local_devices;
  for (const PjRtDevice* device : client->devices()) {
    device_to_process[device->global_device_id()] = ProcessId(device->process_index());
    if (device->IsAddressable()) local_devices[device->local_hardware_id().value()] = device;
  }
  is_starting = true;
  gpu::StartShmemRuntime(options.node_id, options.num_nodes, local_devices, options.kv_store, device_to_process,
                         options.enable_mock_nccl);
  is_starting = false;
  return client;
}

}  // namespace xla

namespace xla::gpu {

absl::Status RunAsyncCollectivesConversionPasses(HloModule* module) {
  const std::unique_ptr<CompilationStats> stats = CompilationStats::MakeNoopStats();
  const GpuTopology topology("", /*num_partitions=*/1, /*num_hosts_per_partition=*/1, /*num_devices_per_host=*/1);
  SHMEM_RETURN_IF_ERROR(AssignShmemBackends(module, topology, /*slice_size=*/0, stats.get()));
  // XLA would place buffers of collectives on NVSHMEM in memory space 1, which the patch takes back.
  module->mutable_config().mutable_debug_options().set_xla_gpu_experimental_enable_nvshmem(false);
  static auto* const upstream =
      Upstream<absl::Status(HloModule*)>("_ZN3xla3gpu35RunAsyncCollectivesConversionPassesEPNS_9HloModuleE");
  return upstream(module);
}

absl::StatusOr<std::unique_ptr<GpuExecutable>> GpuExecutable::Create(Params params) {
  SHMEM_RETURN_IF_ERROR(UseShmemThunks(params.debug_module.get(), &params.executable->thunks()));
  static auto* const upstream = Upstream<absl::StatusOr<std::unique_ptr<GpuExecutable>>(Params)>(
      "_ZN3xla3gpu13GpuExecutable6CreateENS1_6ParamsE");
  return upstream(std::move(params));
}

}  // namespace xla::gpu

extern "C" {

const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api* const api = [] {
    CountRuns(std::make_index_sequence<kNumHandlers>());
    const auto* const exported = reinterpret_cast<const void*>(Upstream<MakeClient>(kMakeClient));
    using GetApi = const PJRT_Api*();
    return reinterpret_cast<GetApi*>(FindUnexported(exported, "_ZN4pjrt10gpu_plugin13GetGpuPjrtApiEv"))();
  }();
  return api;
}

// Collectives that XLA has started on NVSHMEM in this process.
uint64_t XlaShmemRuns() { return num_runs; }

// The same by CUDA graphs: what was captured, and what has run.
void XlaShmemInGraphs(uint64_t* captured, uint64_t* run) {
  *captured = *run = 0;
  for (xla_shmem::GpuRuntime* const gpu : xla_shmem::GpuProcess::Get().devices()) {
    if (!gpu->started()) continue;
    *captured += gpu->transfers().in_graphs().captured;
    *run += gpu->transfers().in_graphs().run;
  }
}

}  // extern "C"
