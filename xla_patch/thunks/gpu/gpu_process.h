// The GPU path of this process: its devices, and what they share. There is one, which is never destroyed.
#ifndef XLA_SHMEM_THUNKS_GPU_GPU_PROCESS_H_
#define XLA_SHMEM_THUNKS_GPU_GPU_PROCESS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "xla_patch/nvshmem/gpu/cuda_driver.h"
#include "xla_patch/nvshmem/gpu/driver_heap.h"
#include "xla_patch/nvshmem/gpu/watchdog.h"
#include "xla_patch/nvshmem/loader.h"
#include "xla_patch/thunks/gpu/gpu_runtime.h"
#include "xla_patch/thunks/gpu/local_meetings.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

class GpuProcess {
 public:
  static GpuProcess& Get();

  // Opens the driver, a device and, with candidates, NVSHMEM. May be called for several devices, before any starts.
  Result<GpuFacts> Open(const GpuOpenOptions& options);
  // The opened devices, in the order of Open.
  const std::vector<GpuRuntime*>& devices() const { return devices_; }
  // By CUDA ordinal; null if it was not opened.
  GpuRuntime* Find(int device) const;

  Result<std::string> UniqueId();
  // The driver heap of world `world`. MakeHeap makes the memory of this process's devices, and PE 0's process the
  // multicast object, if it can. It returns what the other processes import. JoinHeap maps the memory of all. It
  // returns
  // "" or why this process cannot have multicast memory; if no process of the world has such a reason, OpenMulticast
  // makes it.
  Result<gpu::SharedMemory> MakeHeap(int world, const gpu::DriverHeap::Options& options);
  Result<std::string> JoinHeap(int world, const gpu::SharedMemory& imported);
  Status OpenMulticast(int world);
  // Null if JoinHeap has not succeeded.
  gpu::DriverHeap* HeapOf(int world);
  // Gives all driver heaps back. Nothing runs on them, and nothing will.
  void DropHeaps();

  // Allows executables for this topology to run. All devices know their world.
  void Admit(int64_t topology_fingerprint);
  // `hook` is called when an executable is loaded before Admit, from any thread and without locks held: the executable
  // may come from a cache, in a process that has compiled nothing. The hook may call Admit. It need not, because XLA
  // also makes executables for GPUs that this machine lacks, and those never run.
  void SetAdmitHook(std::function<void()> hook) { admit_hook_ = std::move(hook); }
  // `hook` is told why the job has failed, and returns what to print. To be called before the first collective.
  void SetFailureHook(std::function<std::string(const std::string& why)> hook) { failure_hook_ = std::move(hook); }
  // `ask` says what the host knows of the other processes. Several threads call it, one at a time. To be called after
  // all devices have started.
  void SetAskPeers(std::function<gpu::PeerFacts()> ask);
  bool EnsureAdmitted();
  bool admitted() const { return ready_.load(std::memory_order_acquire); }
  int64_t topology_fingerprint() const { return fingerprint_; }
  LocalMeetings& meetings() { return meetings_; }

  // What a device's watchdog says. The first failure fails all devices: they would wait for that one.
  void Report(GpuRuntime* device, gpu::Watchdog::Event event, const std::string& why);

 private:
  struct World {
    std::unique_ptr<gpu::DriverHeap> heap;
    bool multicast = false;  // whether it is wanted
    bool joined = false;
    std::string why_no_multicast;
  };

  GpuProcess() = default;

  std::mutex mutex_;
  bool has_driver_ = false;
  gpu::CudaDriver cuda_{};
  NvshmemLibrary nvshmem_;
  std::string nvshmem_error_;
  std::map<int, std::unique_ptr<GpuRuntime>> by_ordinal_;  // only grows, before any collective
  std::vector<GpuRuntime*> devices_;
  std::map<int, World> worlds_;
  LocalMeetings meetings_;
  std::mutex ask_mutex_;
  std::function<gpu::PeerFacts()> ask_peers_;
  std::function<void()> admit_hook_;
  std::function<std::string(const std::string&)> failure_hook_;
  std::atomic<GpuRuntime*> failed_{nullptr};  // the first device that has failed
  std::atomic<bool> ready_{false};
  int64_t fingerprint_ = 0;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_GPU_GPU_PROCESS_H_
