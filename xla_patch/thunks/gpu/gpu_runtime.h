// The GPU path on one device: one PE, its arena and its transfers. A process has one for each of its GPUs
// (gpu_process.h).
//
// It starts in two steps, both before XLA's GPU client exists, so that the arena is allocated before XLA reserves most
// of the memory. python/xla_shmem/runtime/gpu_job.py makes all processes take each step:
//   1. GpuProcess::Open and LoadKernels: libraries, driver, device and device code.
//   2. Start: the symmetric arena, zeroed, from NVSHMEM's heap or the driver's. With NVSHMEM it is collective over all
//   processes; process 0 makes the unique id of the world before.
// No PE may put before all have started.
#ifndef XLA_SHMEM_THUNKS_GPU_GPU_RUNTIME_H_
#define XLA_SHMEM_THUNKS_GPU_GPU_RUNTIME_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "xla_patch/nvshmem/gpu/cuda_driver.h"
#include "xla_patch/nvshmem/gpu/device.h"
#include "xla_patch/nvshmem/gpu/driver_heap.h"
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
  std::vector<std::string> nvshmem_candidates;  // none: NVSHMEM is not loaded
  int device = 0;                               // CUDA ordinal
  // An error if the driver cannot do what these ask for.
  gpu::Puts puts = gpu::Puts::kDriver;
  GpuPermute permute = GpuPermute::kAuto;
};

// The driver, device and library that Open found.
struct GpuFacts {
  std::string nvshmem_path;  // "" if it is not loaded
  std::string nvshmem_version;
  std::string nvshmem_error;  // why it could not be loaded
  int driver_version = 0;     // 1000 * major + 10 * minor
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
  std::string unique_id;            // from GpuProcess::UniqueId in process 0; unused with a driver heap
  gpu::DriverHeap* heap = nullptr;  // open; null: NVSHMEM's
  size_t arena_bytes = 0;
  gpu::Puts puts = gpu::Puts::kNvshmem;
  GpuPermute permute = GpuPermute::kAuto;
  int multiprocessors = 0;                            // of the smallest GPU of the world; 0: this one's
  bool multimem = false;                              // reductions in the NVLink switch, if UseMultimem is called
  size_t packet_bytes = gpu::kPacketBytesOverNvlink;  // of LaneLayout; equal on all PEs
  bool timed = false;                                 // the timeline measures times on the device
  std::chrono::nanoseconds deadline = std::chrono::nanoseconds::max();  // of a time without progress
};

class GpuProcess;

class GpuRuntime {
 public:
  // `process` owns this.
  GpuRuntime(GpuProcess* process, const gpu::CudaDriver* cuda, const NvshmemLibrary* nvshmem)
      : process_(process), cuda_(cuda), nvshmem_(nvshmem) {}
  GpuRuntime(const GpuRuntime&) = delete;
  GpuRuntime& operator=(const GpuRuntime&) = delete;

  // Opens the device.
  Result<GpuFacts> Open(const GpuOpenOptions& options);
  // `image`: nvshmem/gpu/kernels/kernels.cu compiled for the device.
  Status LoadKernels(const std::string& image);
  // What Open has returned.
  const GpuFacts& facts() const { return facts_; }
  // Returns the arena's offset in the heap.
  Result<size_t> Start(const GpuStartOptions& options);
  // Whether Start was asked for reductions in the switch, and has found multicast memory for them.
  bool has_multicast() const { return multicast_ != nullptr; }
  // Reductions of all PEs go to the switch. All processes of the world have multicast memory, and all call this before
  // the first collective.
  void UseMultimem() { lanes_->UseMultimem(multicast_); }
  // `world`: the job's PE of each PE of this device's world. Before GpuProcess::Admit.
  void SetWorld(std::vector<int> world) { world_ = std::move(world); }
  const std::vector<int>& world() const { return world_; }
  // This device's PE in the numbering of the compiled modules.
  int job_pe() const { return world_[pe_]; }
  // PE of this device's world for a PE of the job; -1 for -1 and for a PE of another world.
  int WorldPe(int job_pe) const;
  bool started() const { return transfers_ != nullptr; }
  // Only after Start.
  gpu::Transfers& transfers() { return *transfers_; }
  gpu::Device& device() { return *device_; }
  gpu::Timeline& timeline() { return *timeline_; }
  gpu::Watchdog& watchdog() { return *watchdog_; }
  // Symmetric memory besides the arena, null if none is left. Collective over the world.
  void* Symmetric(size_t bytes);

 private:
  Result<char*> MakeArena(const GpuStartOptions& options);
  Status ZeroArena(char* arena, size_t bytes);
  char* FindMulticast(const char* lanes, size_t bytes) const;

  GpuProcess* const process_;
  const gpu::CudaDriver* const cuda_;
  const NvshmemLibrary* const nvshmem_;
  std::mutex mutex_;
  gpu::CudaContext context_ = nullptr;
  gpu::DriverHeap* heap_ = nullptr;
  int pe_ = -1;
  GpuFacts facts_;
  char* multicast_ = nullptr;            // of the lanes
  std::unique_ptr<gpu::Device> device_;  // from Open on
  std::unique_ptr<gpu::Watchdog> watchdog_;
  std::unique_ptr<gpu::Timeline> timeline_;
  std::unique_ptr<gpu::PairRings> rings_;
  std::unique_ptr<gpu::KernelOperations> operations_;
  std::unique_ptr<gpu::Lanes> lanes_;
  std::unique_ptr<gpu::SplitPermutes> splits_;
  std::unique_ptr<gpu::Transfers> transfers_;
  std::vector<int> world_;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_GPU_GPU_RUNTIME_H_
