// The GPU road of this process: one device, one PE of the NVSHMEM world, its arena and its transfers.
//
// Coming up takes two steps, both before XLA's GPU client exists, so that the arena is taken before XLA reserves most
// of the memory (python/xla_shmem/runtime/gpu_job.py drives them and sees to it that all processes take each):
//   1. Open: libraries, driver and device; process 0 also makes the unique id of the world;
//   2. Start, collective over all processes: NVSHMEM's init and the symmetric arena, zeroed.
// Nothing may be put before all processes have started. There is one GpuRuntime a process and it is never destroyed.
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
#include "xla_patch/thunks/gpu/transfers.h"

namespace xla_shmem {

struct GpuOpenOptions {
  std::string cuda_library = "libcuda.so.1";
  std::vector<std::string> nvshmem_candidates;
  int device = 0;  // CUDA ordinal of this process's device
};

// What Open found, for messages and for compiling the kernels.
struct GpuFacts {
  std::string nvshmem_path;
  std::string nvshmem_version;
  int driver_version = 0;  // 1000 * major + 10 * minor
  int compute_major = 0;
  int compute_minor = 0;
};

struct GpuStartOptions {
  int pe = 0;
  int n_pes = 1;
  std::string unique_id;  // of UniqueId in process 0
  size_t arena_bytes = 0;
  std::string kernels;  // image of nvshmem/gpu/kernels.cu for this device
  gpu::Puts puts = gpu::Puts::kNvshmem;
  bool team_reductions = false;
  std::chrono::nanoseconds deadline{std::chrono::seconds(60)};
};

class GpuRuntime {
 public:
  static GpuRuntime& Get();

  bool Open(const GpuOpenOptions& options, GpuFacts* facts, std::string* error);
  bool UniqueId(std::string* id, std::string* error);
  bool Start(const GpuStartOptions& options, std::string* error);
  // From here on executables for this topology may run. `world`: the job's PE of each PE of this NVSHMEM world.
  void Admit(std::vector<int> world, int64_t topology_fingerprint);

  // Called, from any thread and without locks held, when an executable is loaded before Admit: it may come from a cache
  // in a process that has compiled nothing. It admits, or leaves it: XLA also makes executables for GPUs that are not
  // there, which nobody runs.
  void SetAdmitHook(std::function<void()> hook) { admit_hook_ = std::move(hook); }
  bool EnsureAdmitted();
  bool admitted() const { return ready_.load(std::memory_order_acquire); }
  int64_t topology_fingerprint() const { return fingerprint_; }
  // This process's PE as the compiled modules number it.
  int job_pe() const { return world_[pe_]; }
  // PE of the NVSHMEM world for a PE of the job; -1 for -1 and for one of another world.
  int WorldPe(int job_pe) const;
  bool started() const { return transfers_ != nullptr; }
  // Only after Start.
  gpu::Transfers& transfers() { return *transfers_; }
  gpu::Device& device() { return *device_; }
  // Symmetric memory besides the arena, null if there is none left. Collective over the world.
  void* Symmetric(size_t bytes) { return nvshmem_.api.malloc(bytes); }

 private:
  GpuRuntime() = default;
  bool ZeroArena(char* arena, size_t bytes, std::string* error);
  bool SetUpTeams(std::string* error);

  std::mutex mutex_;
  gpu::CudaDriver cuda_{};
  NvshmemLibrary nvshmem_;
  gpu::CudaContext context_ = nullptr;
  bool opened_ = false;
  int pe_ = -1;
  std::unique_ptr<gpu::Device> device_;
  gpu::Teams teams_;
  gpu::TeamReductions team_reductions_;
  std::unique_ptr<gpu::Watchdog> watchdog_;
  std::unique_ptr<gpu::PairRings> rings_;
  std::unique_ptr<gpu::Transfers> transfers_;
  std::function<void()> admit_hook_;
  std::atomic<bool> ready_{false};
  std::vector<int> world_;
  int64_t fingerprint_ = 0;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_GPU_GPU_RUNTIME_H_
