// NVSHMEM in a process of a patched XLA: one GPU a process, one world with all processes of the job, PE = process id.
//
// This connects the plugin's GpuRuntime (thunks/gpu/gpu_runtime.h) with XLA: PJRT numbers processes and devices, and
// the processes agree over PJRT's key-value store. They start together or not at all. If they do not start, all of them
// log the same reason and every collective keeps its default backend.
#ifndef XLA_BACKENDS_GPU_SHMEM_SHMEM_RUNTIME_H_
#define XLA_BACKENDS_GPU_SHMEM_SHMEM_RUNTIME_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "xla/pjrt/distributed/key_value_store_interface.h"
#include "xla/runtime/device_id.h"
#include "xla/runtime/process_id.h"
#include "xla_patch/assigner/topology.h"
#include "xla_patch/nvshmem/gpu/bootstrap.h"
#include "xla_patch/options/environment.h"
#include "xla_patch/runtime/job_rounds.h"
#include "xla_patch/thunks/gpu/gpu_process.h"
#include "xla_patch/thunks/gpu/gpu_runtime.h"
#include "xla_patch/types/status.h"

namespace xla::gpu {

// The options of this process, read once; or which of them is wrong.
const xla_shmem::Result<xla_shmem::EnvironmentOptions>& ShmemOptions();

class ShmemRuntime {
 public:
  struct Job {
    int process = 0;
    int num_processes = 1;
    std::vector<int> device_ordinals;  // CUDA ordinals of this process's devices
    std::shared_ptr<KeyValueStoreInterface> kv_store;
    absl::flat_hash_map<GlobalDeviceId, ProcessId> device_to_process;
    bool is_mock = false;  // this process pretends that the others exist
  };

  // That of this process. Tests make others.
  static ShmemRuntime& Get();
  ShmemRuntime() = default;

  // Starts NVSHMEM if --xla_gpu_experimental_enable_nvshmem is set. Collective over the job's processes. Only the first
  // call of a process has an effect. Never fails: see `failure`.
  void Start(Job job);

  // Why NVSHMEM does not run although it was requested; "" if it runs, or was not started: a compiler for the GPUs of
  // other machines decides as if it ran.
  std::string failure() const;

  // Ok if collectives can run on this process's GPU.
  absl::Status CheckRunning() const;

  // The job; empty unless NVSHMEM runs.
  xla_shmem::Topology topology() const;

  xla_shmem::GpuProcess& process_gpus() const { return xla_shmem::GpuProcess::Get(); }
  // The one GPU of this process, once it is open.
  xla_shmem::GpuRuntime& gpu() const { return *process_gpus().devices().front(); }

 private:
  // Ok once NVSHMEM runs in all processes; otherwise the same error in all of them.
  xla_shmem::Status StartTogether(const Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reductions go to the NVLink switch if all processes have multicast memory.
  void AgreeOnMultimem(const xla_shmem::JobRounds& rounds);
  // Opens the libraries and loads the kernels. Returns what this process announces (job_announcement.h).
  xla_shmem::Result<xla_shmem::JobAnswer> Open(const Job& job);
  // Returns the arena's offset in NVSHMEM's heap, which must be the same in all processes.
  xla_shmem::Result<xla_shmem::JobAnswer> StartWorld(const Job& job,
                                                     const std::vector<xla_shmem::gpu::WorldMember>& members,
                                                     const xla_shmem::JobRounds& rounds);
  // All processes run: executables for this job may.
  xla_shmem::Status Admit(const Job& job, const std::vector<int32_t>& hosts) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts statistics, trace and flight recorder.
  void Observe(const Job& job, const std::vector<xla_shmem::gpu::WorldMember>& members,
               const xla_shmem::JobRounds& rounds);

  mutable absl::Mutex mutex_;
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  std::string failure_ ABSL_GUARDED_BY(mutex_);
  xla_shmem::Topology topology_ ABSL_GUARDED_BY(mutex_);  // empty unless NVSHMEM runs
};

// For the PJRT client: `Start` with the client's own variables. The keys of `local_devices` are CUDA ordinals.
template <typename LocalDevices>
void StartShmemRuntime(int process, size_t num_processes, const LocalDevices& local_devices,
                       std::shared_ptr<KeyValueStoreInterface> kv_store,
                       const absl::flat_hash_map<GlobalDeviceId, ProcessId>& device_to_process, bool is_mock) {
  ShmemRuntime::Job job{process, static_cast<int>(num_processes), {}, std::move(kv_store), device_to_process, is_mock};
  for (const auto& device : local_devices) job.device_ordinals.push_back(device.first);
  ShmemRuntime::Get().Start(std::move(job));
}

}  // namespace xla::gpu

#endif  // XLA_BACKENDS_GPU_SHMEM_SHMEM_RUNTIME_H_
