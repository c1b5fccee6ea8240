#include "xla_patch/thunks/gpu/gpu_runtime.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "xla_patch/nvshmem/gpu/bootstrap.h"

namespace xla_shmem {

GpuRuntime& GpuRuntime::Get() {
  static GpuRuntime* runtime = new GpuRuntime;
  return *runtime;
}

bool GpuRuntime::Open(const GpuOpenOptions& options, GpuFacts* facts, std::string* error) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!gpu::LoadCudaDriver(options.cuda_library, &cuda_, error)) return false;
  const auto failed = [&](int result, const char* call) {
    if (result == gpu::kCudaSuccess) return false;
    const char* name = nullptr;
    cuda_.get_error_name(result, &name);
    *error = std::string(call) + " of device " + std::to_string(options.device) + " failed with " +
             (name != nullptr ? name : std::to_string(result));
    return true;
  };
  int device = 0;
  if (failed(cuda_.init(0), "cuInit") ||
      failed(cuda_.driver_get_version(&facts->driver_version), "cuDriverGetVersion") ||
      failed(cuda_.device_get(&device, options.device), "cuDeviceGet") ||
      failed(cuda_.device_get_attribute(&facts->compute_major, gpu::kAttributeComputeMajor, device),
             "cuDeviceGetAttribute") ||
      failed(cuda_.device_get_attribute(&facts->compute_minor, gpu::kAttributeComputeMinor, device),
             "cuDeviceGetAttribute") ||
      // The same context XLA uses: all of a process share the primary one.
      failed(cuda_.device_primary_ctx_retain(&context_, device), "cuDevicePrimaryCtxRetain")) {
    return false;
  }
  if (!LoadNvshmem(options.nvshmem_candidates, &nvshmem_, error)) return false;
  facts->nvshmem_path = nvshmem_.path;
  facts->nvshmem_version =
      std::to_string(nvshmem_.major) + "." + std::to_string(nvshmem_.minor) + "." + std::to_string(nvshmem_.patch);
  opened_ = true;
  return true;
}

bool GpuRuntime::UniqueId(std::string* id, std::string* error) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!opened_) {
    *error = "the GPU road of this process is not open";
    return false;
  }
  return gpu::MakeUniqueId(nvshmem_, id, error);
}

bool GpuRuntime::Start(const GpuStartOptions& options, std::string* error) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!opened_ || transfers_ != nullptr) {
    *error = opened_ ? "the GPU road of this process has started already" : "the GPU road of this process is not open";
    return false;
  }
  gpu::PairLayout layout;
  if (!gpu::PairLayout::Create(options.n_pes, options.arena_bytes, &layout, error)) return false;
  device_ = std::make_unique<gpu::Device>(&cuda_, &nvshmem_.api, options.puts, context_);
  if (!device_->LoadKernels(options.kernels.data(), error)) return false;
  const gpu::ScopedContext context(*device_);
  const size_t staging_bytes = options.team_reductions ? gpu::kTeamStagingBytes : 0;
  if (!gpu::JoinWorld(nvshmem_, options.pe, options.n_pes, options.unique_id, options.arena_bytes + staging_bytes,
                      error)) {
    return false;
  }
  auto* arena = static_cast<char*>(nvshmem_.api.malloc(options.arena_bytes));
  if (arena == nullptr) {
    *error =
        "NVSHMEM has no " + std::to_string(options.arena_bytes) +
        " bytes of symmetric memory: lower XLA_SHMEM_HEAP_SIZE, or XLA_PYTHON_CLIENT_MEM_FRACTION if XLA has the rest";
    return false;
  }
  for (int pe = 0; pe < options.n_pes; ++pe) {
    if (nvshmem_.api.ptr(arena, pe) != nullptr) continue;
    *error = "PE " + std::to_string(pe) + " is not reachable by NVLink or PCIe peer access from PE " +
             std::to_string(options.pe);
    return false;
  }
  if (!ZeroArena(arena, options.arena_bytes, error)) return false;
  if (options.team_reductions && !SetUpTeams(error)) return false;
  pe_ = options.pe;
  rings_ = std::make_unique<gpu::PairRings>(device_.get(), layout, options.pe, arena);
  watchdog_ = std::make_unique<gpu::Watchdog>(device_.get(), options.deadline);
  transfers_ = std::make_unique<gpu::Transfers>(rings_.get(), watchdog_.get(), team_reductions_);
  *error = device_->TakeError();
  return error->empty();
}

bool GpuRuntime::SetUpTeams(std::string* error) {
  if (!teams_.Create(nvshmem_.api, error)) return false;
  auto* staging = static_cast<char*>(nvshmem_.api.malloc(gpu::kTeamStagingBytes));
  if (staging == nullptr) {
    *error = "NVSHMEM has no " + std::to_string(gpu::kTeamStagingBytes) +
             " bytes of symmetric memory for reductions on teams: set XLA_SHMEM_GPU_REDUCE=rings";
    return false;
  }
  team_reductions_ = {&nvshmem_.api, &teams_, staging, gpu::kTeamStagingBytes};
  return true;
}

bool GpuRuntime::ZeroArena(char* arena, size_t bytes, std::string* error) {
  const gpu::CudaStream stream = device_->CreateStream();
  device_->Fill(arena, 0, bytes, stream);
  const gpu::CudaEvent event = device_->Mark(stream);
  *error = device_->TakeError();
  while (error->empty()) {
    const gpu::Device::Progress progress = device_->Query(event);
    if (progress == gpu::Device::Progress::kDone) break;
    if (progress == gpu::Device::Progress::kFailed) *error = "the GPU failed to clear the symmetric arena";
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  device_->Recycle(event);
  return error->empty();
}

int GpuRuntime::WorldPe(int job_pe) const {
  const auto found = std::find(world_.begin(), world_.end(), job_pe);
  return found == world_.end() ? -1 : static_cast<int>(found - world_.begin());
}

void GpuRuntime::Admit(std::vector<int> world, int64_t topology_fingerprint) {
  world_ = std::move(world);
  fingerprint_ = topology_fingerprint;
  ready_.store(true, std::memory_order_release);
}

bool GpuRuntime::EnsureAdmitted() {
  if (!admitted() && admit_hook_) admit_hook_();
  return admitted();
}

}  // namespace xla_shmem
