#include "xla/backends/gpu/shmem/shmem_runtime.h"

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/log/log.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "xla/backends/gpu/shmem/job_announcement.h"
#include "xla/backends/gpu/shmem/pjrt_job_store.h"
#include "xla/backends/gpu/shmem/shmem_flag.h"
#include "xla/backends/gpu/transforms/collectives/shmem/job_topology.h"
#include "xla/debug_options_flags.h"
#include "xla_patch/nvshmem/gpu/bootstrap.h"
#include "xla_patch/nvshmem/gpu/device.h"
#include "xla_patch/nvshmem/gpu/nvrtc.h"
#include "xla_patch/nvshmem/gpu/start_limit.h"
#include "xla_patch/options/environment.h"
#include "xla_patch/options/given_options.h"
#include "xla_patch/runtime/gpu_recording.h"
#include "xla_patch/runtime/job_rounds.h"
#include "xla_patch/runtime/observe/record_directory.h"
#include "xla_patch/thunks/gpu/gpu_runtime.h"
#include "xla_patch/types/status.h"

namespace xla::gpu {
namespace {

using ::xla_shmem::EnvironmentOptions;
using ::xla_shmem::JobAnswer;
using ::xla_shmem::JobRounds;
using ::xla_shmem::Result;
using ::xla_shmem::Status;
using ::xla_shmem::gpu::WorldMember;

// The rounds of the start.
constexpr char kOpen[] = "open";
constexpr char kStart[] = "start";
constexpr char kMulticast[] = "multicast";
constexpr char kPrefix[] = "xla_shmem/3/";
// Processes of a job may be minutes apart in loading data and libraries.
constexpr std::chrono::minutes kPatience{10};
// All processes have opened their libraries when NVSHMEM starts.
constexpr std::chrono::seconds kStartPatience{60};

std::vector<std::string> NvshmemCandidates(const EnvironmentOptions& options) {
  if (!options.nvshmem_library.empty()) return {options.nvshmem_library};
  return {"libnvshmem_host.so.3"};
}

// A driver may not read the output of a newer compiler.
std::vector<std::string> NvrtcCandidates(int driver_version) {
  if (driver_version >= 13000) return {"libnvrtc.so.13", "libnvrtc.so.12"};
  return {"libnvrtc.so.12"};
}

Status SeveralGpus(size_t number) {
  return Status::Error(absl::StrCat(number, " GPUs in one process; NVSHMEM takes one process for each GPU"));
}

// What all processes must have alike: the options, variables of NVSHMEM's that the user has set, and what the GPU and
// its driver decide.
std::string Agreement(const EnvironmentOptions& options, const xla_shmem::GpuFacts& facts) {
  const std::string chosen = xla_shmem::gpu::ChosenByUser(xla_shmem::VariablesOf("NVSHMEM_"));
  return absl::StrCat(options.agreement, chosen.empty() ? "" : " ", chosen, " on a GPU of ", facts.multiprocessors,
                      " SMs", facts.can_copy_permutes ? "" : " without copied permutes");
}

// By process: the number of its host.
std::vector<int32_t> NumberHosts(const std::vector<WorldMember>& members) {
  std::map<std::string, int32_t> numbers;
  std::vector<int32_t> hosts;
  for (const WorldMember& member : members) {
    hosts.push_back(numbers.emplace(member.host, static_cast<int32_t>(numbers.size())).first->second);
  }
  return hosts;
}

}  // namespace

const Result<EnvironmentOptions>& ShmemOptions() {
  static const auto* const options =
      new Result<EnvironmentOptions>(xla_shmem::ReadEnvironment(xla_shmem::VariablesOf("XLA_SHMEM_")));
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
  if (status.ok()) {
    LOG(INFO) << "NVSHMEM runs as PE " << job.process << " of " << job.num_processes;
  } else {
    LOG(WARNING) << "--xla_gpu_experimental_enable_nvshmem: collectives stay on the default backend: " << failure_;
  }
}

Status ShmemRuntime::StartTogether(const Job& job) {
  if (job.kv_store == nullptr) return SeveralGpus(job.device_ordinals.size());
  const JobRounds rounds(job.process, job.num_processes, std::make_shared<PjrtJobStore>(job.kv_store), kPrefix,
                         kPatience);
  // NVSHMEM's start is collective: no process may call it unless all will.
  const auto opened = rounds.Agree(kOpen, Open(job), [](const std::vector<std::string>& texts) {
    return CheckMembers(texts, *ShmemOptions(), std::getenv("NVSHMEM_CUMEM_GRANULARITY") != nullptr);
  });
  if (!opened.ok()) return opened.status();
  const Result<std::vector<WorldMember>> members = MembersOf(*opened);
  if (!members.ok()) return members.status();
  XLA_SHMEM_RETURN_IF_ERROR(rounds.Agree(kStart, StartWorld(job, *members, rounds)).status());
  if (ShmemOptions()->multimem) AgreeOnMultimem(rounds);
  return Admit(job, NumberHosts(*members));
}

void ShmemRuntime::AgreeOnMultimem(const JobRounds& rounds) {
  const bool has_multicast = gpu().has_multicast();
  const Status agreed =
      rounds.Agree(kMulticast, JobAnswer{"", has_multicast ? "multicast memory" : "no multicast memory"}).status();
  if (agreed.ok() && has_multicast) return gpu().UseMultimem();
  LOG(WARNING) << "XLA_SHMEM_GPU_REDUCE=multimem: "
               << (agreed.ok() ? "no process has multicast memory" : agreed.message())
               << ", so the kernel for GPUs without NVLink SHARP reduces in all processes";
}

Status ShmemRuntime::Admit(const Job& job, const std::vector<int32_t>& hosts) {
  absl::StatusOr<xla_shmem::Topology> topology =
      RunningTopology(job.device_to_process, hosts, ShmemOptions()->nvlink_domain);
  if (!topology.ok()) return Status::Error(std::string(topology.status().message()));
  topology_ = *std::move(topology);
  std::vector<int> world(job.num_processes);
  std::iota(world.begin(), world.end(), 0);
  gpu().SetWorld(std::move(world));
  process_gpus().Admit(static_cast<int64_t>(topology_.Fingerprint()));
  return {};
}

Result<JobAnswer> ShmemRuntime::Open(const Job& job) {
  const Result<EnvironmentOptions>& options = ShmemOptions();
  if (!options.ok()) return options.status();
  if (job.device_ordinals.size() != 1) return SeveralGpus(job.device_ordinals.size());
  if (options->driver_heap) {
    return Status::Error("XLA_SHMEM_GPU_HEAP=driver: a patched jaxlib has NVSHMEM's memory only; set it to auto");
  }
  // No process writes a trace before all have announced themselves.
  if (job.process == 0 && !options->trace.empty()) unlink(options->trace.c_str());
  xla_shmem::GpuOpenOptions open;
  open.nvshmem_candidates = NvshmemCandidates(*options);
  open.device = job.device_ordinals.front();
  open.puts = options->nvshmem_puts ? xla_shmem::gpu::Puts::kNvshmem : xla_shmem::gpu::Puts::kDriver;
  open.permute = options->gpu_permute;
  const Result<xla_shmem::GpuFacts> facts = process_gpus().Open(open);
  if (!facts.ok()) return facts.status();
  if (!facts->nvshmem_error.empty()) return Status::Error(facts->nvshmem_error);
  VLOG(1) << "NVSHMEM " << facts->nvshmem_version << " from " << facts->nvshmem_path;
  const Result<std::string> kernels =
      xla_shmem::gpu::CompileKernels(NvrtcCandidates(facts->driver_version), xla_shmem::gpu::kKernelSource,
                                     facts->compute_major * 10 + facts->compute_minor);
  if (!kernels.ok()) return kernels.status();
  XLA_SHMEM_RETURN_IF_ERROR(gpu().LoadKernels(*kernels));
  return JobAnswer{ToText({job.process, xla_shmem::gpu::HostIdentity(), facts->bus_id,
                           xla_shmem::gpu::CountImexChannels(), facts->free_bytes}),
                   Agreement(*options, *facts)};
}

Result<JobAnswer> ShmemRuntime::StartWorld(const Job& job, const std::vector<WorldMember>& members,
                                           const JobRounds& rounds) {
  const EnvironmentOptions& options = *ShmemOptions();
  // Before the unique id is made: NVSHMEM reads its environment then. What the user has set stays.
  for (const auto& [name, value] : NvshmemSettings(options, members)) {
    setenv(name.c_str(), value.c_str(), /*overwrite=*/0);
  }
  const xla_shmem::gpu::StartLimit limit(job.num_processes, kStartPatience,
                                         [&](int process) { return rounds.Outcome(kStart, process); });
  Result<std::string> unique_id = rounds.FromProcess0("unique_id", [this] { return process_gpus().UniqueId(); });
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
  Observe(job, members, rounds);
  return JobAnswer{"", absl::StrCat("its arena at offset ", *offset, " of NVSHMEM's heap")};
}

void ShmemRuntime::Observe(const Job& job, const std::vector<WorldMember>& members, const JobRounds& rounds) {
  const EnvironmentOptions& options = *ShmemOptions();
  std::vector<int> here;  // processes on this host
  for (const WorldMember& member : members) {
    if (member.host == members[job.process].host) here.push_back(member.process);
  }
  const Result<std::string> name = rounds.FromProcess0("records", xla_shmem::observe::NewJobName);
  const Result<std::string> records =
      name.ok() ? xla_shmem::observe::MakeRecordDirectory(options.records, *name) : name.status();
  if (!records.ok()) LOG(WARNING) << "no flight recorder: " << records.message();
  const std::string directory = records.ok() ? *records : "";
  for (const std::string& problem : xla_shmem::StartGpuObserver(
           {directory, options.statistics, options.trace, /*on_gpu=*/true}, job.process, here, {job.process})) {
    LOG(WARNING) << problem;
  }
}

std::string ShmemRuntime::failure() const {
  absl::MutexLock lock(mutex_);
  return failure_;
}

absl::Status ShmemRuntime::CheckRunning() const {
  absl::MutexLock lock(mutex_);
  if (topology_.num_devices() > 0) return absl::OkStatus();
  if (!failure_.empty()) return absl::FailedPreconditionError(failure_);
  return absl::FailedPreconditionError(
      "NVSHMEM does not run in this process: set XLA_FLAGS=--xla_gpu_experimental_enable_nvshmem=true before the GPU "
      "client starts, or compile this program again without it");
}

xla_shmem::Topology ShmemRuntime::topology() const {
  absl::MutexLock lock(mutex_);
  return topology_;
}

}  // namespace xla::gpu
