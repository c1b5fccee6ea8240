#include "xla_patch/thunks/gpu/gpu_process.h"

#include <algorithm>
#include <utility>

#include "xla_patch/nvshmem/gpu/bootstrap.h"

namespace xla_shmem {

GpuProcess& GpuProcess::Get() {
  static GpuProcess* process = new GpuProcess;
  return *process;
}

GpuRuntime* GpuProcess::Find(int device) const {
  const auto found = by_ordinal_.find(device);
  return found == by_ordinal_.end() ? nullptr : found->second.get();
}

Result<GpuFacts> GpuProcess::Open(const GpuOpenOptions& options) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!has_driver_) {
    const Result<gpu::CudaDriver> cuda = gpu::LoadCudaDriver(options.cuda_library);
    if (!cuda.ok()) return cuda.status();
    cuda_ = *cuda;
    has_driver_ = true;
  }
  if (nvshmem_.path.empty() && !options.nvshmem_candidates.empty()) {
    Result<NvshmemLibrary> nvshmem = LoadNvshmem(options.nvshmem_candidates);
    nvshmem_error_ = nvshmem.message();
    if (nvshmem.ok()) nvshmem_ = *std::move(nvshmem);
  }
  auto device = std::make_unique<GpuRuntime>(this, &cuda_, &nvshmem_);
  Result<GpuFacts> facts = device->Open(options);
  if (!facts.ok()) return facts;
  facts->nvshmem_error = nvshmem_error_;
  if (Find(options.device) == nullptr) {
    devices_.push_back(device.get());
    by_ordinal_[options.device] = std::move(device);
  }
  return facts;
}

Result<std::string> GpuProcess::UniqueId() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (nvshmem_.path.empty()) return Status::Error("NVSHMEM is not loaded");
  return gpu::MakeUniqueId(nvshmem_);
}

Result<gpu::SharedMemory> GpuProcess::MakeHeap(int world, const gpu::DriverHeap::Options& options) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!has_driver_) return Status::Error("the GPU path of this process is not open");
  Result<std::unique_ptr<gpu::DriverHeap>> heap = gpu::DriverHeap::Create(&cuda_, options);
  if (!heap.ok()) return heap.status();
  World made;
  made.heap = *std::move(heap);
  made.multicast = options.multicast;
  const bool has_first = std::any_of(options.own.begin(), options.own.end(), [](auto& own) { return own.pe == 0; });
  if (options.multicast && has_first) made.why_no_multicast = made.heap->MakeMulticast().message();
  Result<gpu::SharedMemory> shared = made.heap->ExportAll();
  if (shared.ok()) worlds_[world] = std::move(made);
  return shared;
}

Result<std::string> GpuProcess::JoinHeap(int world_number, const gpu::SharedMemory& imported) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = worlds_.find(world_number);
  if (found == worlds_.end()) return Status::Error("this process has no memory in that world");
  World& world = found->second;
  for (const auto& [object, handle] : imported) {
    const Status status = world.heap->Import(object, handle);
    if (object == gpu::kMulticastObject) {
      world.why_no_multicast = status.message();  // without it the heap is as good
    } else if (!status.ok()) {
      return status;
    }
  }
  XLA_SHMEM_RETURN_IF_ERROR(world.heap->Open());
  world.joined = true;
  if (world.multicast && world.why_no_multicast.empty()) {
    world.why_no_multicast = world.heap->AddToMulticast().message();
  }
  return world.why_no_multicast;
}

Status GpuProcess::OpenMulticast(int world) {
  gpu::DriverHeap* const heap = HeapOf(world);
  return heap != nullptr ? heap->OpenMulticast() : Status::Error("this process has no memory in that world");
}

gpu::DriverHeap* GpuProcess::HeapOf(int world) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = worlds_.find(world);
  return found == worlds_.end() || !found->second.joined ? nullptr : found->second.heap.get();
}

void GpuProcess::DropHeaps() {
  const std::lock_guard<std::mutex> lock(mutex_);
  worlds_.clear();
}

void GpuProcess::Admit(int64_t topology_fingerprint) {
  fingerprint_ = topology_fingerprint;
  ready_.store(true, std::memory_order_release);
}

bool GpuProcess::EnsureAdmitted() {
  if (!admitted() && admit_hook_) admit_hook_();
  return admitted();
}

void GpuProcess::SetAskPeers(std::function<gpu::PeerFacts()> ask) {
  ask_peers_ = std::move(ask);
  for (GpuRuntime* const device : devices_) {
    if (!device->started()) continue;
    device->watchdog().SetAskPeers([this] {
      const std::lock_guard<std::mutex> lock(ask_mutex_);
      return ask_peers_();
    });
  }
}

void GpuProcess::Report(GpuRuntime* device, gpu::Watchdog::Event event, const std::string& why) {
  using Event = gpu::Watchdog::Event;
  if (event != Event::kLate && event != Event::kDescribed) {
    const bool fails = event != Event::kWaits;
    return gpu::Watchdog::PrintOrExit(event, fails && failure_hook_ ? failure_hook_(why) : why);
  }
  GpuRuntime* first = nullptr;
  const bool is_first = failed_.compare_exchange_strong(first, device);
  if (!is_first && first != device) return;  // it has been told by the first
  gpu::Watchdog::PrintOrExit(event, failure_hook_ ? failure_hook_(why) : why);
  if (!is_first) return;
  for (GpuRuntime* const other : devices_) {
    if (other != device && other->started()) other->watchdog().Fail(why);
  }
}

}  // namespace xla_shmem
