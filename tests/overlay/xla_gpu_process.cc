// One process of a job on the XLA:GPU of @xla, with the overlay where the patch puts it (test_xla_gpu_jobs.py):
//
//   xla_gpu_process DIRECTORY PROCESS PROCESSES RUNS on|off|reload
//
// compiles DIRECTORY/module.hlo for a replica in each process, and runs it RUNS times. It reads parameter I of run R
// from parameter.R.I.PROCESS and writes result.R.I.PROCESS. The last argument is the flag; with `reload` it is on, and
// the executable is serialised and loaded again before it runs.
//
// The patch adds calls to upstream's sources. Here upstream's exported functions are replaced: the dynamic linker takes
// those of the program, which make the same calls and go on to the wheel's.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/log/check.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/message.h"
#include "tests/overlay/file_store.h"
#include "xla/backends/gpu/runtime/collective_thunk.h"
#include "xla/backends/gpu/runtime/thunk.h"
#include "xla/backends/gpu/runtime/thunk_executor.h"
#include "xla/backends/gpu/shmem/shmem_backend_assignment.h"
#include "xla/backends/gpu/shmem/shmem_collective_thunk.h"
#include "xla/backends/gpu/shmem/shmem_flag.h"
#include "xla/backends/gpu/shmem/shmem_runtime.h"
#include "xla/backends/gpu/shmem/shmem_thunk_substitution.h"
#include "xla/backends/gpu/transforms/collectives/shmem/status_macros.h"
#include "xla/hlo/builder/xla_computation.h"
#include "xla/hlo/ir/hlo_instruction.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/hlo/parser/hlo_parser.h"
#include "xla/literal.h"
#include "xla/pjrt/pjrt_client.h"
#include "xla/pjrt/pjrt_executable.h"
#include "xla/pjrt/plugin/xla_gpu/xla_gpu_client_options.h"
#include "xla/pjrt/plugin/xla_gpu/xla_gpu_pjrt_client.h"
#include "xla/runtime/device_id.h"
#include "xla/runtime/process_id.h"
#include "xla/service/compilation_stats.h"
#include "xla/service/computation_placer.h"
#include "xla/service/gpu/gpu_executable.h"
#include "xla/service/gpu_topology.h"
#include "xla/service/hlo_module_config.h"
#include "xla/shape.h"

namespace {

bool flag_is_on = false;
bool is_reloaded = false;
int num_processes = 0;

// What the program's function of the same name stands before.
template <typename Function>
Function* Upstream(const char* name) {
  void* const found = dlsym(RTLD_NEXT, name);
  QCHECK(found != nullptr) << name << " is not in this XLA";
  return reinterpret_cast<Function*>(found);
}

}  // namespace

namespace xla::gpu {

absl::Status RunAsyncCollectivesConversionPasses(HloModule* module) {
  const std::unique_ptr<CompilationStats> stats = CompilationStats::MakeNoopStats();
  const GpuTopology topology("", /*num_partitions=*/1, num_processes, /*num_devices_per_host=*/1);
  SHMEM_RETURN_IF_ERROR(AssignShmemBackends(module, topology, /*slice_size=*/0, stats.get()));
  static auto* const upstream =
      Upstream<absl::Status(HloModule*)>("_ZN3xla3gpu35RunAsyncCollectivesConversionPassesEPNS_9HloModuleE");
  return upstream(module);
}

absl::StatusOr<std::unique_ptr<GpuExecutable>> GpuExecutable::Create(Params params) {
  SHMEM_RETURN_IF_ERROR(UseShmemThunks(params.debug_module.get(), &params.executable->thunks()));
  for (const std::unique_ptr<Thunk>& top : params.executable->thunks()) {
    top->Walk([](Thunk* thunk) {
      if (dynamic_cast<CollectiveThunk*>(thunk) == nullptr) return;
      const bool is_ours = dynamic_cast<ShmemCollectiveThunk*>(thunk) != nullptr;
      const std::string kind(Thunk::KindToString(thunk->kind()));
      std::fprintf(stderr, "%s on %s\n", kind.c_str(), is_ours ? "NVSHMEM" : "NCCL");
    });
  }
  static auto* const upstream = Upstream<absl::StatusOr<std::unique_ptr<GpuExecutable>>(Params)>(
      "_ZN3xla3gpu13GpuExecutable6CreateENS1_6ParamsE");
  return upstream(std::move(params));
}

// In place of shmem_flag.cc: the flag of this wheel would also start upstream's NVSHMEM, which the patch takes out of
// cuda_executor.cc.
bool IsNvshmemRequested(const google::protobuf::Message& /*debug_options*/) { return flag_is_on; }

}  // namespace xla::gpu

namespace {

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

absl::StatusOr<std::unique_ptr<xla::HloModule>> ReadModule(const std::string& path) {
  SHMEM_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  xla::HloModuleConfig config;
  config.set_replica_count(num_processes);
  return xla::ParseAndReturnUnverifiedModule(text, config);
}

class Process {
 public:
  Process(std::string directory, int number)
      : directory_(std::move(directory)), number_(number), store_(std::make_shared<FileStore>(directory_ + "/store")) {}

  absl::Status Run(int runs) {
    SHMEM_RETURN_IF_ERROR(Start());
    SHMEM_ASSIGN_OR_RETURN(const std::unique_ptr<xla::HloModule> module, ReadModule(directory_ + "/module.hlo"));
    xla::CompileOptions options;
    options.executable_build_options.set_num_replicas(num_processes);
    options.executable_build_options.set_num_partitions(1);
    options.executable_build_options.set_device_assignment(Devices());
    SHMEM_ASSIGN_OR_RETURN(std::unique_ptr<xla::PjRtLoadedExecutable> executable,
                           client_->CompileAndLoad(xla::XlaComputation(module->ToProto()), options));
    if (is_reloaded) {
      SHMEM_ASSIGN_OR_RETURN(const std::string serialised, executable->SerializeExecutable());
      SHMEM_ASSIGN_OR_RETURN(executable,
                             client_->LoadSerializedExecutable(serialised, std::nullopt, xla::LoadOptions()));
    }
    for (int run = 0; run < runs; ++run) SHMEM_RETURN_IF_ERROR(RunOnce(*module, *executable, run));
    return Leave();
  }

 private:
  // The patch starts the runtime while the client learns of its devices.
  absl::Status Start() {
    xla::GpuClientOptions options;
    options.allocator_config.preallocate = false;
    options.node_id = number_;
    options.num_nodes = num_processes;
    options.allowed_devices = std::set<int>{number_};
    options.kv_store = store_;
    SHMEM_ASSIGN_OR_RETURN(client_, xla::GetXlaPjrtGpuClient(options));
    absl::flat_hash_map<xla::GlobalDeviceId, xla::ProcessId> device_to_process;
    for (const xla::PjRtDevice* device : client_->devices()) {
      device_to_process[device->global_device_id()] = xla::ProcessId(device->process_index());
    }
    const std::map<int, int> local_devices = {{number_, 0}};
    xla::gpu::StartShmemRuntime(number_, num_processes, local_devices, store_, device_to_process, /*is_mock=*/false);
    std::fprintf(stderr, "failure: %s\n", xla::gpu::ShmemRuntime::Get().failure().c_str());
    return absl::OkStatus();
  }

  xla::DeviceAssignment Devices() const {
    xla::DeviceAssignment devices(num_processes, /*computation_count=*/1);
    for (const xla::PjRtDevice* device : client_->devices()) {
      devices(device->process_index(), 0) = device->global_device_id().value();
    }
    return devices;
  }

  absl::Status RunOnce(const xla::HloModule& module, xla::PjRtLoadedExecutable& executable, int run) {
    SHMEM_ASSIGN_OR_RETURN(xla::PjRtMemorySpace* const memory,
                           client_->addressable_devices()[0]->default_memory_space());
    std::vector<std::unique_ptr<xla::PjRtBuffer>> parameters;
    std::vector<xla::PjRtBuffer*> arguments;
    for (const xla::HloInstruction* parameter : module.entry_computation()->parameter_instructions()) {
      SHMEM_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(PathOf("parameter", run, arguments.size())));
      const xla::Shape& shape = parameter->shape();
      SHMEM_ASSIGN_OR_RETURN(parameters.emplace_back(),
                             client_->BufferFromHostBuffer(
                                 bytes.data(), shape.element_type(), shape.dimensions(), /*byte_strides=*/std::nullopt,
                                 xla::PjRtClient::HostBufferSemantics::kImmutableOnlyDuringCall,
                                 /*on_done_with_host_buffer=*/nullptr, memory, /*device_layout=*/nullptr));
      arguments.push_back(parameters.back().get());
    }
    const std::vector<std::vector<xla::PjRtBuffer*>> of_devices = {arguments};
    SHMEM_ASSIGN_OR_RETURN(const auto results, executable.Execute(of_devices, xla::ExecuteOptions()));
    for (size_t i = 0; i < results[0].size(); ++i) {
      SHMEM_ASSIGN_OR_RETURN(const std::shared_ptr<xla::Literal> literal, results[0][i]->ToLiteral().Await());
      std::ofstream file(PathOf("result", run, i), std::ios::binary);
      file.write(static_cast<const char*>(literal->untyped_data()), static_cast<int64_t>(literal->size_bytes()));
    }
    return absl::OkStatus();
  }

  // A process that ends takes its memory with it, which the others may still write to.
  absl::Status Leave() {
    SHMEM_RETURN_IF_ERROR(store_->Set(absl::StrCat("left ", number_), ""));
    for (int process = 0; process < num_processes; ++process) {
      SHMEM_RETURN_IF_ERROR(store_->Get(absl::StrCat("left ", process), absl::Minutes(1)).status());
    }
    return absl::OkStatus();
  }

  std::string PathOf(absl::string_view what, int run, size_t number) const {
    return absl::StrCat(directory_, "/", what, ".", run, ".", number, ".", number_);
  }

  const std::string directory_;
  const int number_;
  const std::shared_ptr<FileStore> store_;
  std::unique_ptr<xla::PjRtClient> client_;
};

}  // namespace

int main(int argc, char** argv) {
  int process = 0;
  int runs = 0;
  QCHECK(argc == 6 && absl::SimpleAtoi(argv[2], &process) && absl::SimpleAtoi(argv[3], &num_processes) &&
         absl::SimpleAtoi(argv[4], &runs))
      << "usage: xla_gpu_process DIRECTORY PROCESS PROCESSES RUNS on|off|reload";
  is_reloaded = absl::string_view(argv[5]) == "reload";
  flag_is_on = is_reloaded || absl::string_view(argv[5]) == "on";
  const absl::Status status = Process(argv[1], process).Run(runs);
  if (status.ok()) return 0;
  std::fprintf(stderr, "xla_gpu_process: %s\n", status.ToString().c_str());
  return 1;
}
