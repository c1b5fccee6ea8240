#include "xla/backends/gpu/shmem/shmem_runtime.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/log/log.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "xla/debug_options_flags.h"
#include "xla/runtime/device_id.h"
#include "xla/tsl/platform/status_macros.h"
#include "xla/xla.pb.h"
#include "xla_patch/nvshmem/gpu/kernel_source.h"
#include "xla_patch/nvshmem/gpu/nvrtc.h"
#include "xla_patch/thunks/gpu/gpu_runtime.h"
#include "xla_patch/thunks/gpu/pair_rings.h"
#include "xla_patch/types/status.h"

namespace xla::gpu {
namespace {

using ::xla_shmem::Result;
using ::xla_shmem::Status;

constexpr absl::string_view kPrefix = "xla_shmem/1/";
// Processes of a job may be minutes apart in loading data and libraries.
constexpr absl::Duration kStoreTimeout = absl::Minutes(10);
constexpr absl::string_view kReady = "ready";

// The plugin's options that apply here have the same names (docs/patched-jaxlib.md).
std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> NvshmemCandidates() {
  const std::string chosen = Environment("XLA_SHMEM_NVSHMEM_LIBRARY");
  if (!chosen.empty()) return {chosen};
  return {"libnvshmem_host.so.3"};
}

// A driver may not read the output of a newer compiler.
std::vector<std::string> NvrtcCandidates(int driver_version) {
  if (driver_version >= 13000) return {"libnvrtc.so.13", "libnvrtc.so.12"};
  return {"libnvrtc.so.12"};
}

Result<int64_t> ReadHeapSize(int num_processes) {
  const std::string text = Environment("XLA_SHMEM_HEAP_SIZE");
  int64_t bytes = static_cast<int64_t>(xla_shmem::gpu::PairLayout::RecommendedBytes(num_processes));
  if (text.empty() || (absl::SimpleAtoi(text, &bytes) && bytes > 0)) return bytes;
  return Status::Error(absl::StrCat("XLA_SHMEM_HEAP_SIZE is \"", text, "\"; a patched jaxlib takes a number of bytes"));
}

Status ToShmemStatus(const absl::Status& status) {
  return status.ok() ? Status() : Status::Error(std::string(status.message()));
}

}  // namespace

ShmemRuntime& ShmemRuntime::Get() {
  static auto* const runtime = new ShmemRuntime;
  return *runtime;
}

void ShmemRuntime::Start(Job job) {
  if (!GetDebugOptionsFromFlags().xla_gpu_experimental_enable_nvshmem()) return;
  absl::MutexLock lock(&mutex_);
  if (started_) return;
  started_ = true;
  if (job.num_processes < 2 && job.device_ordinals.size() < 2) return;  // no other PE
  const Status status = StartTogether(job);
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
  // NVSHMEM's start is collective: no process may call it unless all will.
  Result<std::string> kernels = Open(job);
  XLA_SHMEM_RETURN_IF_ERROR(Agree(job, "open", kernels.status()));
  return Agree(job, "start", StartWorld(job, *std::move(kernels)));
}

Status ShmemRuntime::StartWorld(const Job& job, std::string kernels) {
  absl::StatusOr<std::string> unique_id = job.kv_store->Get(absl::StrCat(kPrefix, "unique_id"), kStoreTimeout);
  if (!unique_id.ok()) return ToShmemStatus(unique_id.status());
  const Result<int64_t> arena_bytes = ReadHeapSize(job.num_processes);
  if (!arena_bytes.ok()) return arena_bytes.status();
  xla_shmem::GpuStartOptions options;
  options.pe = job.process;
  options.n_pes = job.num_processes;
  options.unique_id = *std::move(unique_id);
  options.arena_bytes = static_cast<size_t>(*arena_bytes);
  options.kernels = std::move(kernels);
  return gpu().Start(options);
}

Result<std::string> ShmemRuntime::Open(const Job& job) {
  if (job.device_ordinals.size() != 1) {
    return Status::Error(
        absl::StrCat(job.device_ordinals.size(), " GPUs in one process; NVSHMEM takes one process for each GPU"));
  }
  const Result<int64_t> heap_size = ReadHeapSize(job.num_processes);
  if (!heap_size.ok()) return heap_size.status();
  xla_shmem::GpuOpenOptions options;
  options.nvshmem_candidates = NvshmemCandidates();
  options.device = job.device_ordinals.front();
  const Result<xla_shmem::GpuFacts> facts = gpu().Open(options);
  if (!facts.ok()) return facts.status();
  VLOG(1) << "NVSHMEM " << facts->nvshmem_version << " from " << facts->nvshmem_path;
  Result<std::string> kernels =
      xla_shmem::gpu::CompileKernels(NvrtcCandidates(facts->driver_version), xla_shmem::gpu::kKernelSource,
                                     facts->compute_major * 10 + facts->compute_minor);
  if (!kernels.ok() || job.process != 0) return kernels;
  const Result<std::string> unique_id = gpu().UniqueId();
  if (!unique_id.ok()) return unique_id.status();
  const absl::Status set = job.kv_store->Set(absl::StrCat(kPrefix, "unique_id"), *unique_id);
  if (!set.ok()) return ToShmemStatus(set);
  return kernels;
}

Status ShmemRuntime::Agree(const Job& job, const std::string& round, const Status& own) {
  const absl::StatusOr<std::string> verdict = Verdict(job, round, own);
  if (!verdict.ok()) return ToShmemStatus(verdict.status());
  return *verdict == kReady ? Status() : Status::Error(*verdict);
}

absl::StatusOr<std::string> ShmemRuntime::Verdict(const Job& job, const std::string& round, const Status& own) {
  const std::string prefix = absl::StrCat(kPrefix, round, "/");
  // The store does not take empty values.
  RETURN_IF_ERROR(
      job.kv_store->Set(absl::StrCat(prefix, job.process), own.ok() ? kReady : absl::string_view(own.message())));
  if (job.process == 0) {
    std::string verdict(kReady);
    for (int process = 0; process < job.num_processes && verdict == kReady; ++process) {
      absl::StatusOr<std::string> answer = job.kv_store->Get(absl::StrCat(prefix, process), kStoreTimeout);
      if (!answer.ok()) {
        verdict = absl::StrCat("process ", process, " did not answer: ", answer.status().message());
      } else if (*answer != kReady) {
        verdict = absl::StrCat("process ", process, ": ", *answer);
      }
    }
    RETURN_IF_ERROR(job.kv_store->Set(absl::StrCat(prefix, "verdict"), verdict));
  }
  // Process 0 may itself wait that long for each of the others.
  return job.kv_store->Get(absl::StrCat(prefix, "verdict"), 2 * kStoreTimeout);
}

std::string ShmemRuntime::failure() const {
  absl::MutexLock lock(&mutex_);
  return failure_;
}

absl::Status ShmemRuntime::CheckRunning() const {
  absl::MutexLock lock(&mutex_);
  if (running_) return absl::OkStatus();
  if (!failure_.empty()) return absl::FailedPreconditionError(failure_);
  return absl::FailedPreconditionError(
      "NVSHMEM does not run in this process: set XLA_FLAGS=--xla_gpu_experimental_enable_nvshmem=true before the GPU "
      "client starts, or compile this program again without it");
}

std::vector<std::pair<int64_t, int32_t>> ShmemRuntime::Devices() const {
  std::vector<std::pair<int64_t, int32_t>> devices;
  absl::MutexLock lock(&mutex_);
  if (!running_) return devices;
  for (const auto& [device, process] : device_to_process_) {
    devices.emplace_back(device.value(), static_cast<int32_t>(process.value()));
  }
  std::sort(devices.begin(), devices.end());
  return devices;
}

absl::StatusOr<int> ShmemRuntime::PeOf(GlobalDeviceId device) const {
  absl::MutexLock lock(&mutex_);
  const auto found = device_to_process_.find(device);
  if (found != device_to_process_.end()) return static_cast<int>(found->second.value());
  return absl::InternalError(absl::StrCat("device ", device.value(), " is in none of the job's processes"));
}

}  // namespace xla::gpu
