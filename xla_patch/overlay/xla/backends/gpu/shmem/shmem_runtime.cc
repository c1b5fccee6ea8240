#include "xla/backends/gpu/shmem/shmem_runtime.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/log/log.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "xla/backends/gpu/shmem/job_announcement.h"
#include "xla/backends/gpu/shmem/job_rounds.h"
#include "xla/backends/gpu/shmem/shmem_flag.h"
#include "xla/backends/gpu/transforms/collectives/shmem/job_topology.h"
#include "xla/debug_options_flags.h"
#include "xla/runtime/device_id.h"
#include "xla_patch/nvshmem/gpu/device.h"
#include "xla_patch/nvshmem/gpu/kernel_source.h"
#include "xla_patch/nvshmem/gpu/nvrtc.h"
#include "xla_patch/nvshmem/gpu/start_limit.h"
#include "xla_patch/nvshmem/gpu/world_members.h"
#include "xla_patch/nvshmem/gpu/world_settings.h"
#include "xla_patch/options/environment.h"
#include "xla_patch/options/given_options.h"
#include "xla_patch/runtime/gpu_recording.h"
#include "xla_patch/runtime/observe/record_directory.h"
#include "xla_patch/thunks/gpu/gpu_runtime.h"
#include "xla_patch/types/status.h"

namespace xla::gpu {
namespace {

using ::xla_shmem::EnvironmentOptions;
using ::xla_shmem::Result;
using ::xla_shmem::Status;

// The rounds of the start.
constexpr char kOpen[] = "open";
constexpr char kStart[] = "start";
constexpr char kMulticast[] = "multicast";
// All processes have opened their libraries when NVSHMEM starts.
constexpr std::chrono::seconds kStartPatience{60};

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> NvshmemCandidates(const EnvironmentOptions& options) {
  if (!options.nvshmem_library.empty()) return {options.nvshmem_library};
  return {"libnvshmem_host.so.3"};
}

// A driver may not read the output of a newer compiler.
std::vector<std::string> NvrtcCandidates(int driver_version) {
  if (driver_version >= 13000) return {"libnvrtc.so.13", "libnvrtc.so.12"};
  return {"libnvrtc.so.12"};
}

// The same for processes that are on one host for NVSHMEM: same kernel and same host name.
std::string HostIdentity() {
  std::string boot_id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot_id;
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return absl::StrCat(boot_id, "/", name);
}

// What all processes must have alike: the options, variables of NVSHMEM's that the user has set, and what the GPU and
// its driver decide.
std::string Agreement(const EnvironmentOptions& options, const xla_shmem::GpuFacts& facts) {
  std::string agreement = options.agreement;
  for (const std::string& name : xla_shmem::gpu::VariablesThatMustAgree()) {
    const std::string value = Environment(name.c_str());
    if (!value.empty()) absl::StrAppend(&agreement, " ", name, "=", value);
  }
  absl::StrAppend(&agreement, " on a GPU of ", facts.multiprocessors, " SMs");
  if (!facts.can_copy_permutes) absl::StrAppend(&agreement, " without copied permutes");
  return agreement;
}

}  // namespace

const Result<EnvironmentOptions>& ShmemOptions() {
  static const auto* const options =
      new Result<EnvironmentOptions>(xla_shmem::ReadEnvironment(xla_shmem::OwnVariables()));
  return *options;
}

ShmemRuntime& ShmemRuntime::Get() {
  static auto* const runtime = new ShmemRuntime;
  return *runtime;
}

void ShmemRuntime::Start(Job job) {
  if (!IsNvshmemRequested(GetDebugOptionsFromFlags())) return;
  absl::MutexLock lock(mutex_);
  if (started_) return;
  started_ = true;
  if (job.num_processes < 2 && job.device_ordinals.size() < 2) return;  // no other PE
  const Status status =
      job.is_mock ? Status::Error("the GPU topology is a mock, so there are no other processes") : StartTogether(job);
  failure_ = status.message();
  running_ = status.ok();
  device_to_process_ = std::move(job.device_to_process);
  if (running_) {
    LOG(INFO) << "NVSHMEM runs as PE " << job.process << " of " << job.num_processes;
  } else {
    LOG(WARNING) << "--xla_gpu_experimental_enable_nvshmem: collectives stay on the default backend: " << failure_;
  }
}

Status ShmemRuntime::StartTogether(const Job& job) {
  if (job.kv_store == nullptr) {
    return Status::Error(
        absl::StrCat(job.device_ordinals.size(), " GPUs in one process; NVSHMEM takes one process for each GPU"));
  }
  const JobRounds rounds(job.process, job.num_processes, job.kv_store);
  // NVSHMEM's start is collective: no process may call it unless all will.
  XLA_SHMEM_RETURN_IF_ERROR(rounds.Agree(kOpen, Open(job), [](const std::vector<std::string>& announcements) {
    return CheckAnnouncements(announcements, *ShmemOptions(), !Environment("NVSHMEM_CUMEM_GRANULARITY").empty());
  }));
  XLA_SHMEM_RETURN_IF_ERROR(rounds.Agree(kStart, StartWorld(job, rounds), CheckEqual));
  if (ShmemOptions()->multimem) AgreeOnMultimem(rounds);
  return {};
}

void ShmemRuntime::AgreeOnMultimem(const JobRounds& rounds) {
  const std::string own = gpu().has_multicast() ? "multicast memory" : "no multicast memory";
  const auto check = [](const std::vector<std::string>& answers) {
    for (size_t process = 0; process < answers.size(); ++process) {
      if (answers[process] != "multicast memory") {
        return Status::Error(absl::StrCat("process ", process, " has ", answers[process]));
      }
    }
    return Status();
  };
  const Status agreed = rounds.Agree(kMulticast, own, check);
  if (agreed.ok()) {
    gpu().UseMultimem();
  } else {
    LOG(WARNING) << "XLA_SHMEM_GPU_REDUCE=multimem: " << agreed.message()
                 << ", so the kernel for GPUs without NVLink SHARP reduces in all processes";
  }
}

Result<std::string> ShmemRuntime::Open(const Job& job) {
  const Result<EnvironmentOptions>& options = ShmemOptions();
  if (!options.ok()) return options.status();
  if (job.device_ordinals.size() != 1) {
    return Status::Error(
        absl::StrCat(job.device_ordinals.size(), " GPUs in one process; NVSHMEM takes one process for each GPU"));
  }
  // No process writes a trace before all have announced themselves.
  if (job.process == 0 && !options->trace.empty()) unlink(options->trace.c_str());
  xla_shmem::GpuOpenOptions open;
  open.nvshmem_candidates = NvshmemCandidates(*options);
  open.device = job.device_ordinals.front();
  open.puts = options->nvshmem_puts ? xla_shmem::gpu::Puts::kNvshmem : xla_shmem::gpu::Puts::kDriver;
  open.permute = options->gpu_permute;
  const Result<xla_shmem::GpuFacts> facts = gpu().Open(open);
  if (!facts.ok()) return facts.status();
  VLOG(1) << "NVSHMEM " << facts->nvshmem_version << " from " << facts->nvshmem_path;
  const Result<std::string> kernels =
      xla_shmem::gpu::CompileKernels(NvrtcCandidates(facts->driver_version), xla_shmem::gpu::kKernelSource,
                                     facts->compute_major * 10 + facts->compute_minor);
  if (!kernels.ok()) return kernels.status();
  XLA_SHMEM_RETURN_IF_ERROR(gpu().LoadKernels(*kernels));
  return ToText({{job.process, HostIdentity(), facts->bus_id, xla_shmem::gpu::CountImexChannels(), facts->free_bytes},
                 Agreement(*options, *facts)});
}

Result<std::string> ShmemRuntime::StartWorld(const Job& job, const JobRounds& rounds) {
  const Result<int> hosts = FindHosts(rounds);
  if (!hosts.ok()) return hosts.status();
  const EnvironmentOptions& options = *ShmemOptions();
  // Before the unique id is made: NVSHMEM reads its environment then. What the user has set stays.
  for (const auto& [name, value] : NvshmemSettings(options, job.num_processes, *hosts)) {
    setenv(name.c_str(), value.c_str(), /*overwrite=*/0);
  }
  const xla_shmem::gpu::StartLimit limit(job.num_processes, kStartPatience,
                                         [&](int process) { return rounds.Outcome(kStart, process); });
  Result<std::string> unique_id = rounds.FromProcess0("unique_id", [this] { return gpu().UniqueId(); });
  if (!unique_id.ok()) return unique_id.status();
  xla_shmem::GpuStartOptions start;
  start.pe = job.process;
  start.n_pes = job.num_processes;
  start.unique_id = *std::move(unique_id);
  start.arena_bytes = ArenaBytes(options, job.num_processes);
  start.puts = options.nvshmem_puts ? xla_shmem::gpu::Puts::kNvshmem : xla_shmem::gpu::Puts::kDriver;
  start.permute = gpu().facts().can_copy_permutes ? options.gpu_permute : xla_shmem::GpuPermute::kKernel;
  start.multimem = options.multimem;
  start.deadline = options.deadline;
  start.timed = options.statistics || !options.trace.empty();
  const Result<size_t> offset = gpu().Start(start);
  if (!offset.ok()) return offset.status();
  Observe(job, rounds);
  return absl::StrCat("its arena at offset ", *offset, " of NVSHMEM's heap");
}

void ShmemRuntime::Observe(const Job& job, const JobRounds& rounds) {
  const EnvironmentOptions& options = *ShmemOptions();
  std::vector<int> here;  // processes on this host
  for (int process = 0; process < job.num_processes; ++process) {
    if (hosts_[process] == hosts_[job.process]) here.push_back(process);
  }
  const Result<std::string> name = rounds.FromProcess0("records", xla_shmem::observe::NewJobName);
  const Result<std::string> records =
      name.ok() ? xla_shmem::observe::MakeRecordDirectory(options.records, *name) : name.status();
  if (!records.ok()) LOG(WARNING) << "no flight recorder: " << records.message();
  const std::string directory = records.ok() ? *records : "";
  for (const std::string& problem : xla_shmem::StartGpuObserver(
           {directory, options.statistics, options.trace, /*on_gpu=*/true}, job.process, here)) {
    LOG(WARNING) << problem;
  }
}

Result<int> ShmemRuntime::FindHosts(const JobRounds& rounds) {
  std::map<std::string, int32_t> numbers;
  hosts_.clear();
  for (int process = 0; process < rounds.num_processes(); ++process) {
    const Result<std::string> text = rounds.Answer(kOpen, process);
    if (!text.ok()) return text.status();
    const Result<Announcement> announcement = AnnouncementOf(process, *text);
    if (!announcement.ok()) return announcement.status();
    const auto next = static_cast<int32_t>(numbers.size());
    hosts_.push_back(numbers.emplace(announcement->member.host, next).first->second);
  }
  return static_cast<int>(numbers.size());
}

std::string ShmemRuntime::failure() const {
  absl::MutexLock lock(mutex_);
  return failure_;
}

absl::Status ShmemRuntime::CheckRunning() const {
  absl::MutexLock lock(mutex_);
  if (running_) return absl::OkStatus();
  if (!failure_.empty()) return absl::FailedPreconditionError(failure_);
  return absl::FailedPreconditionError(
      "NVSHMEM does not run in this process: set XLA_FLAGS=--xla_gpu_experimental_enable_nvshmem=true before the GPU "
      "client starts, or compile this program again without it");
}

std::vector<RunningDevice> ShmemRuntime::Devices() const {
  std::vector<RunningDevice> devices;
  absl::MutexLock lock(mutex_);
  if (!running_) return devices;
  for (const auto& [device, process] : device_to_process_) {
    const auto number = static_cast<int32_t>(process.value());
    devices.push_back({device.value(), number, hosts_[number]});
  }
  std::sort(devices.begin(), devices.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return devices;
}

absl::StatusOr<int> ShmemRuntime::PeOf(GlobalDeviceId device) const {
  absl::MutexLock lock(mutex_);
  const auto found = device_to_process_.find(device);
  if (found != device_to_process_.end()) return static_cast<int>(found->second.value());
  return absl::InternalError(absl::StrCat("device ", device.value(), " is in none of the job's processes"));
}

}  // namespace xla::gpu
