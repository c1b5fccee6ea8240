#include "xla_patch/thunks/gpu/gpu_runtime.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "xla_patch/nvshmem/gpu/bootstrap.h"
#include "xla_patch/thunks/gpu/gpu_process.h"

namespace xla_shmem {
namespace {

constexpr int kHopper = 9;  // compute capability 9.0
constexpr char kNotOpen[] = "the GPU path of this process is not open";

std::string Dotted(int driver_version) {
  return "the driver (CUDA " + std::to_string(driver_version / 1000) + "." +
         std::to_string(driver_version % 1000 / 10) + ")";
}

// Why these options do not work on the device, "" if they do.
std::string WhyNot(const GpuOpenOptions& options, const GpuFacts& facts) {
  if (options.permute == GpuPermute::kCopies && !facts.can_copy_permutes) {
    return Dotted(facts.driver_version) +
           " has no 64-bit stream memory operations on symmetric memory, as drivers from CUDA 12.5 on have: set "
           "XLA_SHMEM_GPU_PERMUTE to auto or kernel";
  }
  if (options.puts == gpu::Puts::kNvshmem && facts.driver_version >= gpu::kFirstDriverWithoutRemoteWrites) {
    return "NVSHMEM's signals write to other GPUs by stream memory operations, which " + Dotted(facts.driver_version) +
           " does not support from CUDA 13.1 on: set XLA_SHMEM_GPU_PUTS to auto or driver";
  }
  return "";
}

}  // namespace

Result<GpuFacts> GpuRuntime::Open(const GpuOpenOptions& options) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Status status;
  const auto succeeded = [&](int result, const char* call) {
    status = gpu::CudaStatus(*cuda_, result, std::string(call) + " of device " + std::to_string(options.device));
    return status.ok();
  };
  GpuFacts facts;
  int device = 0;
  int mem_ops = 0;
  char bus_id[32] = {};
  const bool opened =
      succeeded(cuda_->init(0), "cuInit") &&
      succeeded(cuda_->driver_get_version(&facts.driver_version), "cuDriverGetVersion") &&
      succeeded(cuda_->device_get(&device, options.device), "cuDeviceGet") &&
      succeeded(cuda_->device_get_attribute(&facts.compute_major, gpu::kAttributeComputeMajor, device),
                "cuDeviceGetAttribute") &&
      succeeded(cuda_->device_get_attribute(&facts.compute_minor, gpu::kAttributeComputeMinor, device),
                "cuDeviceGetAttribute") &&
      succeeded(cuda_->device_get_attribute(&facts.multiprocessors, gpu::kAttributeMultiprocessors, device),
                "cuDeviceGetAttribute") &&
      succeeded(cuda_->device_get_attribute(&mem_ops, gpu::kAttribute64BitMemOps, device), "cuDeviceGetAttribute") &&
      succeeded(cuda_->device_get_pci_bus_id(bus_id, sizeof(bus_id), device), "cuDeviceGetPCIBusId") &&
      // The context of XLA too: a process shares the primary one.
      succeeded(cuda_->device_primary_ctx_retain(&context_, device), "cuDevicePrimaryCtxRetain") &&
      succeeded(cuda_->ctx_push_current(context_), "cuCtxPushCurrent");
  if (!opened) return status;
  // Without stream memory operations NVSHMEM's calls take copies and kernels.
  facts.can_copy_permutes =
      options.puts == gpu::Puts::kNvshmem || (mem_ops != 0 && facts.driver_version >= gpu::kFirstDriverWithStreamWords);
  facts.bus_id = bus_id;
  size_t total_bytes = 0;
  succeeded(cuda_->mem_get_info(&facts.free_bytes, &total_bytes), "cuMemGetInfo");
  gpu::CudaContext popped = nullptr;
  cuda_->ctx_pop_current(&popped);
  if (!status.ok()) return status;
  facts.nvshmem_path = nvshmem_->path;
  if (!facts.nvshmem_path.empty()) {
    facts.nvshmem_version =
        std::to_string(nvshmem_->major) + "." + std::to_string(nvshmem_->minor) + "." + std::to_string(nvshmem_->patch);
  }
  if (const std::string why = WhyNot(options, facts); !why.empty()) return Status::Error(why);
  facts_ = facts;
  device_ = std::make_unique<gpu::Device>(cuda_, &nvshmem_->api, gpu::Puts::kDriver, context_);
  const bool writes = facts.driver_version < gpu::kFirstDriverWithoutRemoteWrites;
  device_->SetSignals(writes ? gpu::Signals::kWrites : gpu::Signals::kCopies);
  if (facts.compute_major >= kHopper) device_->UseRemoteDomain();
  return facts;
}

Status GpuRuntime::LoadKernels(const std::string& image) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (device_ == nullptr) return Status::Error(kNotOpen);
  return device_->LoadKernels(image.data());
}

Result<size_t> GpuRuntime::Start(const GpuStartOptions& options) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (device_ == nullptr) return Status::Error(kNotOpen);
  if (transfers_ != nullptr) return Status::Error("the GPU path of this process has started already");
  if (!facts_.can_copy_permutes && options.permute != GpuPermute::kKernel) {
    return Status::Error("permutes must be kernels, because " + Dotted(facts_.driver_version) +
                         " has no 64-bit stream memory operations on symmetric memory");
  }
  const int multiprocessors = options.multiprocessors != 0 ? options.multiprocessors : facts_.multiprocessors;
  const Result<gpu::ArenaLayout> layout =
      gpu::ArenaLayout::Create(options.n_pes, options.arena_bytes, options.multimem,
                               gpu::LaneLayout::MostLanes(multiprocessors), options.packet_bytes);
  if (!layout.ok()) return layout.status();
  if (options.heap != nullptr && options.puts == gpu::Puts::kNvshmem) {
    return Status::Error(
        "NVSHMEM's puts (XLA_SHMEM_GPU_PUTS=nvshmem) need its heap: set XLA_SHMEM_GPU_HEAP to nvshmem");
  }
  heap_ = options.heap;
  device_->SetPuts(options.puts);
  device_->SetHeap(heap_);
  const gpu::ScopedContext context(*device_);
  if (heap_ == nullptr) {
    XLA_SHMEM_RETURN_IF_ERROR(gpu::JoinWorld(*nvshmem_, *cuda_, options.pe, options.n_pes, options.unique_id));
  }
  const Result<char*> arena = MakeArena(options);
  if (!arena.ok()) return arena.status();
  if (options.multimem) multicast_ = FindMulticast(*arena, layout->lanes.bytes());
  operations_ = std::make_unique<gpu::KernelOperations>(options.pe);
  lanes_ = std::make_unique<gpu::Lanes>(device_.get(), operations_.get(), layout->lanes, options.pe, *arena);
  rings_ = std::make_unique<gpu::PairRings>(device_.get(), layout->pairs, options.pe, *arena + layout->pairs_offset);
  watchdog_ = std::make_unique<gpu::Watchdog>(
      device_.get(), options.deadline,
      [this](gpu::Watchdog::Event event, const std::string& why) { process_->Report(this, event, why); });
  timeline_ = std::make_unique<gpu::Timeline>(device_.get(), options.timed);
  splits_ = std::make_unique<gpu::SplitPermutes>(device_.get(), operations_.get(), watchdog_.get(), layout->splits,
                                                 options.pe, *arena + layout->splits_offset);
  transfers_ = std::make_unique<gpu::Transfers>(rings_.get(), lanes_.get(), splits_.get(), watchdog_.get(),
                                                timeline_.get(), options.permute);
  XLA_SHMEM_RETURN_IF_ERROR(device_->TakeError());
  return heap_ != nullptr ? static_cast<size_t>(*arena - heap_->part(options.pe))
                          : gpu::OffsetInHeap(nvshmem_->api, *arena, options.pe);
}

Result<char*> GpuRuntime::MakeArena(const GpuStartOptions& options) {
  pe_ = options.pe;
  auto* arena = static_cast<char*>(Symmetric(options.arena_bytes));
  if (arena == nullptr) {
    return Status::Error(std::string(heap_ != nullptr ? "the driver heap" : "NVSHMEM") + " has no " +
                         std::to_string(options.arena_bytes) +
                         " bytes of symmetric memory: lower XLA_SHMEM_HEAP_SIZE, or XLA_PYTHON_CLIENT_MEM_FRACTION if "
                         "XLA has the rest");
  }
  for (int pe = 0; pe < options.n_pes; ++pe) {
    if (device_->PeerAddress(arena, pe) != nullptr) continue;
    return Status::Error("PE " + std::to_string(pe) + " is not reachable by NVLink or PCIe peer access from PE " +
                         std::to_string(options.pe));
  }
  XLA_SHMEM_RETURN_IF_ERROR(ZeroArena(arena, options.arena_bytes));
  return arena;
}

// Compute capability 9.0 has the first multimem instructions. NVSHMEM does not say that neighbouring bytes have
// neighbouring multicast addresses, so it is asked for both ends.
char* GpuRuntime::FindMulticast(const char* lanes, size_t bytes) const {
  if (facts_.compute_major < kHopper || !device_->has_switch_reduction()) return nullptr;
  const auto multicast = [&](const char* object) {
    const auto mc_ptr = nvshmem_->api.mc_ptr;
    return static_cast<char*>(heap_ != nullptr    ? heap_->MulticastAddress(object)
                              : mc_ptr != nullptr ? mc_ptr(kTeamWorld, object)
                                                  : nullptr);
  };
  char* const first = multicast(lanes);
  return first != nullptr && multicast(lanes + bytes - 1) == first + bytes - 1 ? first : nullptr;
}

Status GpuRuntime::ZeroArena(char* arena, size_t bytes) {
  const gpu::CudaStream stream = device_->CreateStream();
  device_->Fill(arena, 0, bytes, stream);
  const gpu::EventRef event = device_->Mark(stream);
  Status status = device_->TakeError();
  while (status.ok()) {
    const gpu::Device::Progress progress = device_->Query(event);
    if (progress == gpu::Device::Progress::kDone) break;
    if (progress == gpu::Device::Progress::kFailed) {
      status = Status::Error("the GPU failed to clear the symmetric arena");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return status;
}

int GpuRuntime::WorldPe(int job_pe) const {
  const auto found = std::find(world_.begin(), world_.end(), job_pe);
  return found == world_.end() ? -1 : static_cast<int>(found - world_.begin());
}

void* GpuRuntime::Symmetric(size_t bytes) {
  return heap_ != nullptr ? heap_->Allocate(pe_, bytes) : nvshmem_->api.malloc(bytes);
}

}  // namespace xla_shmem
