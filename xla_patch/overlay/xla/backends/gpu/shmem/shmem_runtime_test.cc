// The start of a job whose processes are threads here, as far as it goes without a GPU.
#include "xla/backends/gpu/shmem/shmem_runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "xla/backends/gpu/shmem/shmem_backend_assignment.h"
#include "xla/backends/gpu/shmem/shmem_flag.h"
#include "xla/backends/gpu/transforms/collectives/shmem/test_modules.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/pjrt/distributed/in_memory_key_value_store.h"
#include "xla/runtime/device_id.h"
#include "xla/runtime/process_id.h"
#include "xla/service/compilation_stats.h"
#include "xla/service/gpu_topology.h"
#include "xla/tsl/util/command_line_flags.h"
#include "xla/xla.pb.h"
#include "xla_patch/nvshmem/gpu/nvrtc.h"

// No device code is compiled here.
const char xla_shmem::gpu::kKernelSource[] = "";

namespace xla::gpu {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Null in XLA 0.11.0, where the flag is ours, and an unpatched XLA ends the process over it.
const google::protobuf::FieldDescriptor* Field() {
  return DebugOptions::descriptor()->FindFieldByName("xla_gpu_experimental_enable_nvshmem");
}

bool SetFlag() {
  std::vector<std::string> flags = {"--xla_gpu_experimental_enable_nvshmem=true"};
  return Field() == nullptr ? tsl::Flags::Parse(flags, {NvshmemFlag()}) : setenv("XLA_FLAGS", flags[0].c_str(), 1) == 0;
}

// Both are read once in a process.
const bool kEnvironmentIsSet = SetFlag() && setenv("XLA_SHMEM_PROFILE", "fast", 1) == 0;

// Starts a job, with so many devices in each process, and returns why it failed in each of them.
std::vector<std::string> Failures(const std::vector<int>& devices) {
  const auto store = std::make_shared<InMemoryKeyValueStore>();
  std::vector<std::unique_ptr<ShmemRuntime>> runtimes;
  std::vector<std::thread> processes;
  for (int process = 0; process < static_cast<int>(devices.size()); ++process) {
    ShmemRuntime::Job job;
    job.process = process;
    job.num_processes = static_cast<int>(devices.size());
    job.kv_store = store;
    for (int ordinal = 0; ordinal < devices[process]; ++ordinal) {
      job.device_ordinals.push_back(ordinal);
      job.device_to_process[GlobalDeviceId(process)] = ProcessId(process);
    }
    runtimes.push_back(std::make_unique<ShmemRuntime>());
    processes.emplace_back([runtime = runtimes.back().get(), job = std::move(job)] { runtime->Start(job); });
  }
  std::vector<std::string> failures;
  for (size_t process = 0; process < processes.size(); ++process) {
    processes[process].join();
    EXPECT_EQ(runtimes[process]->topology().num_devices(), 0);
    EXPECT_FALSE(runtimes[process]->CheckRunning().ok());
    failures.push_back(runtimes[process]->failure());
  }
  return failures;
}

TEST(ShmemRuntimeTest, AWrongOptionKeepsAllProcessesFromStarting) {
  ASSERT_TRUE(kEnvironmentIsSet);
  EXPECT_THAT(Failures({1, 1, 1}),
              Each("process 0: XLA_SHMEM_PROFILE='fast': must be 'upstream', 'domain' or 'tuned'."));
}

TEST(ShmemRuntimeTest, AProcessWithoutPeersIsNotStarted) { EXPECT_THAT(Failures({1}), Each(IsEmpty())); }

TEST(ShmemRuntimeTest, ProcessesOfAMockTopologyAreNotWaitedFor) {
  ShmemRuntime::Job job;
  job.num_processes = 8;
  job.device_ordinals = {0};
  job.kv_store = std::make_shared<InMemoryKeyValueStore>();
  job.is_mock = true;
  ShmemRuntime runtime;
  runtime.Start(std::move(job));
  EXPECT_THAT(runtime.failure(), HasSubstr("the GPU topology is a mock"));
}

// Of a module with this entry, where NVSHMEM is requested.
absl::Status Assigned(absl::string_view entry) {
  const auto module = ParseEntry(entry, 2);
  DebugOptions& debug_options = module->mutable_config().mutable_debug_options();
  if (Field() != nullptr) debug_options.GetReflection()->SetBool(&debug_options, Field(), true);
  return AssignShmemBackends(
      module.get(), GpuTopology("", /*num_partitions=*/1, /*num_hosts_per_partition=*/2, /*num_devices_per_host=*/1),
      /*slice_size=*/0, CompilationStats::MakeNoopStats().get());
}

TEST(ShmemRuntimeTest, AWrongOptionIsAnErrorOfEveryCompilation) {
  const absl::Status status = Assigned("ROOT c = f32[4] all-reduce(p), channel_id=1, to_apply=sum, replica_groups={}");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), StartsWith("XLA_SHMEM_PROFILE='fast'"));
}

absl::Status WithKernel(absl::string_view target, absl::string_view config) {
  return Assigned(absl::StrCat("ROOT kernel = f32[4] custom-call(p), custom_call_target=\"", target,
                               "\", api_version=API_VERSION_ORIGINAL, backend_config=\"", config, "\""));
}

TEST(ShmemRuntimeTest, AMosaicKernelThatCallsNvshmemIsRefusedByName) {
  for (const absl::string_view target : {"mosaic_gpu", "mosaic_gpu_v2"}) {
    const absl::Status status = WithKernel(target, "extern nvshmem_ptr");
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("kernel (", target, ") calls NVSHMEM")));
  }
  // Of other kernels the option is what is wrong.
  EXPECT_EQ(WithKernel("mosaic_gpu_v2", "multimem_parameters").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(WithKernel("my_kernel", "nvshmem").code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace xla::gpu
