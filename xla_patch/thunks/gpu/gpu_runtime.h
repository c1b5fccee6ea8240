// The GPU path of this process: one device, one PE of the NVSHMEM world, its arena and its transfers.
//
// It starts in two steps, both before XLA's GPU client exists, so that the arena is allocated before XLA reserves most
// of the memory. python/xla_shmem/runtime/gpu_job.py calls them and makes all processes take each step:
//   1. Open and LoadKernels: libraries, driver, device and device code; process 0 also makes the unique id of the
//   world.
//   2. Start, collective over all processes: NVSHMEM's init and the symmetric arena, zeroed.
// No PE may put before all processes have started. Each process has one GpuRuntime, which is never destroyed.
#ifndef XLA_SHMEM_THUNKS_GPU_GPU_RUNTIME_H_
#define XLA_SHMEM_THUNKS_GPU_GPU_RUNTIME_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "xla_patch/nvshmem/gpu/cuda_driver.h"
#include "xla_patch/nvshmem/gpu/device.h"
#include "xla_patch/nvshmem/gpu/watchdog.h"
#include "xla_patch/nvshmem/loader.h"
#include "xla_patch/thunks/gpu/arena_layout.h"
#include "xla_patch/thunks/gpu/lanes.h"
#include "xla_patch/thunks/gpu/timeline.h"
#include "xla_patch/thunks/gpu/transfers.h"
#include "xla_patch/types/gpu_permute.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

struct GpuOpenOptions {
  std::string cuda_library = "libcuda.so.1";
  std::vector<std::string> nvshmem_candidates;
  int device = 0;  // CUDA ordinal of this process's device
  // An error if the driver cannot do what these ask for.
  gpu::Puts puts = gpu::Puts::kDriver;
  GpuPermute permute = GpuPermute::kAuto;
};

// The driver, device and library that Open found.
struct GpuFacts {
  std::string nvshmem_path;
  std::string nvshmem_version;
  int driver_version = 0;  // 1000 * major + 10 * minor
  int compute_major = 0;
  int compute_minor = 0;
  int multiprocessors = 0;
  // Whether copies can carry permutes, with these puts. If not, all permutes of the world must be kernels.
  bool can_copy_permutes = false;
  std::string bus_id;     // PCI address of the device
  size_t free_bytes = 0;  // memory of the device
};

struct GpuStartOptions {
  int pe = 0;
  int n_pes = 1;
  std::string unique_id;  // from UniqueId in process 0
  size_t arena_bytes = 0;
  gpu::Puts puts = gpu::Puts::kNvshmem;
  GpuPermute permute = GpuPermute::kAuto;
  int multiprocessors = 0;                            // of the smallest GPU of the world; 0: this one's
  bool multimem = false;                              // reductions in the NVLink switch, if UseMultimem is called
  size_t packet_bytes = gpu::kPacketBytesOverNvlink;  // of LaneLayout; equal on all PEs
  bool timed = false;                                 // the timeline measures times on the device
  std::chrono::nanoseconds deadline = std::chrono::nanoseconds::max();  // of a time without progress
};

class GpuRuntime {
 public:
  static GpuRuntime& Get();

  Result<GpuFacts> Open(const GpuOpenOptions& options);
  // `image`: nvshmem/gpu/kernels/kernels.cu compiled for the device.
  Status LoadKernels(const std::string& image);
  // What Open has returned.
  const GpuFacts& facts() const { return facts_; }
  Result<std::string> UniqueId();
  // Returns the arena's offset in NVSHMEM's heap (bootstrap.h).
  Result<size_t> Start(const GpuStartOptions& options);
  // Whether Start was asked for reductions in the switch, and has found multicast memory for them.
  bool has_multicast() const { return multicast_ != nullptr; }
  // Reductions of all PEs go to the switch. All processes of the world have multicast memory, and all call this before
  // the first collective.
  void UseMultimem() { lanes_->UseMultimem(multicast_); }
  // Allows executables for this topology to run. `world`: the job's PE of each PE of this NVSHMEM world.
  void Admit(std::vector<int> world, int64_t topology_fingerprint);

  // `hook` is called when an executable is loaded before Admit, from any thread and without locks held: the executable
  // may come from a cache, in a process that has compiled nothing. The hook may call Admit. It need not, because XLA
  // also makes executables for GPUs that this machine lacks, and those never run.
  void SetAdmitHook(std::function<void()> hook) { admit_hook_ = std::move(hook); }
  // `hook` is told why the job has failed, and returns what to print. To be called before the first collective.
  void SetFailureHook(std::function<std::string(const std::string& why)> hook) { failure_hook_ = std::move(hook); }
  // `ask` says what the host knows of the other processes. To be called after Start.
  void SetAskPeers(std::function<gpu::PeerFacts()> ask) { watchdog_->SetAskPeers(std::move(ask)); }
  bool EnsureAdmitted();
  bool admitted() const { return ready_.load(std::memory_order_acquire); }
  int64_t topology_fingerprint() const { return fingerprint_; }
  // This process's PE in the numbering of the compiled modules.
  int job_pe() const { return world_[pe_]; }
  // PE of this NVSHMEM world for a PE of the job; -1 for -1 and for a PE of another world.
  int WorldPe(int job_pe) const;
  bool started() const { return transfers_ != nullptr; }
  // Only after Start.
  gpu::Transfers& transfers() { return *transfers_; }
  gpu::Device& device() { return *device_; }
  gpu::Timeline& timeline() { return *timeline_; }
  // Symmetric memory besides the arena, null if none is left. Collective over the world.
  void* Symmetric(size_t bytes) { return nvshmem_.api.malloc(bytes); }

 private:
  GpuRuntime() = default;
  Result<char*> MakeArena(const GpuStartOptions& options);
  void Report(gpu::Watchdog::Event event, const std::string& why) const;
  Status ZeroArena(char* arena, size_t bytes);
  char* FindMulticast(const char* lanes, size_t bytes) const;

  std::mutex mutex_;
  gpu::CudaDriver cuda_{};
  NvshmemLibrary nvshmem_;
  gpu::CudaContext context_ = nullptr;
  int pe_ = -1;
  GpuFacts facts_;
  char* multicast_ = nullptr;            // of the lanes
  std::unique_ptr<gpu::Device> device_;  // from Open on
  std::unique_ptr<gpu::Watchdog> watchdog_;
  std::unique_ptr<gpu::Timeline> timeline_;
  std::unique_ptr<gpu::PairRings> rings_;
  std::unique_ptr<gpu::Lanes> lanes_;
  std::unique_ptr<gpu::Transfers> transfers_;
  std::function<void()> admit_hook_;
  std::function<std::string(const std::string&)> failure_hook_;
  std::atomic<bool> ready_{false};
  std::vector<int> world_;
  int64_t fingerprint_ = 0;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_GPU_GPU_RUNTIME_H_
