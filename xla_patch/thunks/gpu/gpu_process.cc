#include "xla_patch/thunks/gpu/gpu_process.h"

#include <algorithm>
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

// The PE whose process makes a world's multicast object, and the end of its note where it has made it.
constexpr int kMakesMulticast = 0;
constexpr char kWithMulticast[] = "+multicast";

bool HasPe(const std::vector<gpu::LocalPe>& own, int pe) {
  return std::any_of(own.begin(), own.end(), [pe](const gpu::LocalPe& local) { return local.pe == pe; });
}

// What a process gives to the others: the memory of its PEs and, behind it, the multicast object.
std::vector<int> ObjectsOf(const HeapPeer& other, bool multicast) {
  std::vector<int> objects = other.pes;
  if (multicast) objects.push_back(gpu::kMulticastObject);
  return objects;
}

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
  if (options.multicast && HasPe(options.own, kMakesMulticast)) {
    made.why_no_multicast = made.heap->MakeMulticast().message();
  }
  Result<std::string> note = MakeNote(&made);
  if (note.ok()) worlds_[world] = std::move(made);
  return note;
}

std::vector<int> GpuProcess::OwnObjects(const World& world) {
  HeapPeer self;
  for (const gpu::LocalPe& own : world.options.own) self.pes.push_back(own.pe);
  return ObjectsOf(
      self, world.options.multicast && HasPe(world.options.own, kMakesMulticast) && world.why_no_multicast.empty());
}

Status GpuProcess::AfterImport(World* world, int object, const Status& imported) {
  if (object != gpu::kMulticastObject) return imported;
  world->why_no_multicast = imported.message();
  return {};
}

Result<std::string> GpuProcess::MakeNote(World* made) {
  const std::vector<int> objects = OwnObjects(*made);
  if (made->options.sharing == gpu::MemorySharing::kFiles) {
    Result<std::unique_ptr<gpu::FileExchange>> files = gpu::FileExchange::Listen();
    if (!files.ok()) return files.status();
    made->files = *std::move(files);
    return made->files->address() + (objects.back() == gpu::kMulticastObject ? kWithMulticast : "");
  }
  std::string note;
  if (made->options.sharing == gpu::MemorySharing::kFabric) {
    for (const int object : objects) {
      const Result<std::string> handle = made->heap->ExportFabric(object);
      if (!handle.ok()) return handle.status();
      note += ToHex(*handle);
    }
  }
  return note;
}

Status GpuProcess::ImportFiles(World* world, int process, const std::vector<HeapPeer>& others,
                               std::chrono::milliseconds patience) {
  std::vector<gpu::OwnedFile> owned;
  std::vector<int> own;
  for (const int object : OwnObjects(*world)) {
    const Result<int> file = world->heap->ExportFile(object);
    if (!file.ok()) return file.status();
    owned.emplace_back(*file);
    own.push_back(*file);
  }
  std::map<int, std::vector<int>> objects;  // by process
  std::vector<gpu::FileExchange::Peer> peers;
  for (const HeapPeer& other : others) {
    const size_t end = other.note.find(kWithMulticast);
    objects[other.process] = ObjectsOf(other, end != std::string::npos);
    peers.push_back({other.process, other.note.substr(0, end), static_cast<int>(objects[other.process].size())});
  }
  Result<std::map<int, std::vector<gpu::OwnedFile>>> files = world->files->Exchange(process, own, peers, patience);
  if (!files.ok()) return files.status();
  for (const auto& [other, theirs] : objects) {
    for (size_t i = 0; i < theirs.size(); ++i) {
      XLA_SHMEM_RETURN_IF_ERROR(
          AfterImport(world, theirs[i], world->heap->ImportFile(theirs[i], (*files)[other][i].get())));
    }
  }
  return {};
}

Status GpuProcess::ImportFabric(World* world, const std::vector<HeapPeer>& others) {
  for (const HeapPeer& other : others) {
    const std::vector<int> theirs = ObjectsOf(other, other.note.size() > other.pes.size() * kHexHandle);
    if (other.note.size() != theirs.size() * kHexHandle) {
      return Status::Error("process " + std::to_string(other.process) + " announced no fabric handles");
    }
    for (size_t i = 0; i < theirs.size(); ++i) {
      const std::string handle = FromHex(other.note.substr(i * kHexHandle, kHexHandle));
      XLA_SHMEM_RETURN_IF_ERROR(AfterImport(world, theirs[i], world->heap->ImportFabric(theirs[i], handle)));
    }
  }
  return {};
}

Result<std::string> GpuProcess::JoinHeap(int world_number, int process, const std::vector<HeapPeer>& others,
                                         std::chrono::milliseconds patience) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = worlds_.find(world_number);
  if (found == worlds_.end()) return Status::Error("this process has no memory in that world");
  World& world = found->second;
  if (world.options.sharing == gpu::MemorySharing::kFiles) {
    XLA_SHMEM_RETURN_IF_ERROR(ImportFiles(&world, process, others, patience));
  } else if (world.options.sharing == gpu::MemorySharing::kFabric) {
    XLA_SHMEM_RETURN_IF_ERROR(ImportFabric(&world, others));
  }
  XLA_SHMEM_RETURN_IF_ERROR(world.heap->Open());
  world.joined = true;
  world.files.reset();
  if (world.options.multicast && world.why_no_multicast.empty()) {
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
