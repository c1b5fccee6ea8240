#include "xla_patch/thunks/gpu/gpu_process.h"

#include <utility>

#include "xla_patch/nvshmem/gpu/bootstrap.h"

namespace xla_shmem {
namespace {

constexpr char kHex[] = "0123456789abcdef";

std::string ToHex(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) {
    text += kHex[static_cast<unsigned char>(byte) >> 4];
    text += kHex[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

std::string FromHex(const std::string& text) {
  const std::string digits = kHex;
  std::string bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes += static_cast<char>(digits.find(text[i]) << 4 | digits.find(text[i + 1]));
  }
  return bytes;
}

constexpr size_t kHexHandle = 2 * gpu::kFabricHandleBytes;

}  // namespace

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

Result<std::string> GpuProcess::MakeHeap(int world, const gpu::DriverHeap::Options& options) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!has_driver_) return Status::Error("the GPU path of this process is not open");
  World made;
  made.options = options;
  Result<std::unique_ptr<gpu::DriverHeap>> heap = gpu::DriverHeap::Create(&cuda_, options);
  if (!heap.ok()) return heap.status();
  made.heap = *std::move(heap);
  std::string note;
  if (options.sharing == gpu::MemorySharing::kFiles) {
    Result<std::unique_ptr<gpu::FileExchange>> files = gpu::FileExchange::Listen();
    if (!files.ok()) return files.status();
    made.files = *std::move(files);
    note = made.files->address();
  } else if (options.sharing == gpu::MemorySharing::kFabric) {
    for (const gpu::LocalPe& own : options.own) {
      const Result<std::string> handle = made.heap->ExportFabric(own.pe);
      if (!handle.ok()) return handle.status();
      note += ToHex(*handle);
    }
  }
  worlds_[world] = std::move(made);
  return note;
}

Status GpuProcess::ImportFiles(World* world, int process, const std::vector<HeapPeer>& others,
                               std::chrono::milliseconds patience) {
  std::vector<gpu::OwnedFile> owned;
  std::vector<int> own;
  for (const gpu::LocalPe& local : world->options.own) {
    const Result<int> file = world->heap->ExportFile(local.pe);
    if (!file.ok()) return file.status();
    owned.emplace_back(*file);
    own.push_back(*file);
  }
  std::vector<gpu::FileExchange::Peer> peers;
  peers.reserve(others.size());
  for (const HeapPeer& other : others) peers.push_back({other.process, other.note, static_cast<int>(other.pes.size())});
  Result<std::map<int, std::vector<gpu::OwnedFile>>> files = world->files->Exchange(process, own, peers, patience);
  if (!files.ok()) return files.status();
  for (const HeapPeer& other : others) {
    for (size_t i = 0; i < other.pes.size(); ++i) {
      XLA_SHMEM_RETURN_IF_ERROR(world->heap->ImportFile(other.pes[i], (*files)[other.process][i].get()));
    }
  }
  return {};
}

Status GpuProcess::JoinHeap(int world_number, int process, const std::vector<HeapPeer>& others,
                            std::chrono::milliseconds patience) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = worlds_.find(world_number);
  if (found == worlds_.end()) return Status::Error("this process has no memory in that world");
  World& world = found->second;
  if (world.options.sharing == gpu::MemorySharing::kFiles) {
    XLA_SHMEM_RETURN_IF_ERROR(ImportFiles(&world, process, others, patience));
  } else if (world.options.sharing == gpu::MemorySharing::kFabric) {
    for (const HeapPeer& other : others) {
      if (other.note.size() != other.pes.size() * kHexHandle) {
        return Status::Error("process " + std::to_string(other.process) + " announced no fabric handles");
      }
      for (size_t i = 0; i < other.pes.size(); ++i) {
        XLA_SHMEM_RETURN_IF_ERROR(
            world.heap->ImportFabric(other.pes[i], FromHex(other.note.substr(i * kHexHandle, kHexHandle))));
      }
    }
  }
  XLA_SHMEM_RETURN_IF_ERROR(world.heap->Open());
  world.joined = true;
  world.files.reset();
  return {};
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
