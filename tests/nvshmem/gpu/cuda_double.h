// A stand-in for the CUDA driver in tests: the table of cuda_driver.h over host streams (tests/doubles/stream.h).
//
// Nothing runs where it is enqueued: a thread a device runs commands one at a time, taking its streams in random order,
// so code that forgets an event or frees a source too early is found out. Kernels are those of kernels.cu, compiled for
// the CPU. A trap ends all streams of the device and makes every later call fail, as on a GPU. Device addresses are
// host addresses. What the driver would refuse is refused; a call on the null stream ends the process.
#ifndef XLA_SHMEM_TESTS_NVSHMEM_GPU_CUDA_DOUBLE_H_
#define XLA_SHMEM_TESTS_NVSHMEM_GPU_CUDA_DOUBLE_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/doubles/stream.h"
#include "xla_patch/nvshmem/api.h"
#include "xla_patch/nvshmem/gpu/cuda_driver.h"

namespace xla_shmem::testing {

class CudaDouble {
 public:
  explicit CudaDouble(unsigned seed = 1);
  ~CudaDouble();

  static const gpu::CudaDriver& Driver();
  // shm::Api's calls, usable on streams of a double.
  static const NvshmemApi& Shmem();
  // Of this thread, null if it has none.
  static gpu::CudaContext CurrentContext();

  // The same for callers that know streams only.
  static void BeginCaptureOn(gpu::CudaStream stream);
  static std::vector<shm::Command> EndCaptureOn(gpu::CudaStream stream);
  static void LaunchOn(gpu::CudaStream stream, const std::vector<shm::Command>& graph);
  static bool SynchronizeStream(gpu::CudaStream stream, double seconds = 20);

  // Keeps the device of a stream from running it, for several commands in a row.
  static std::unique_lock<std::mutex> Lock(gpu::CudaStream stream);

  gpu::CudaContext context() const;
  gpu::CudaStream CreateStream();

  // What CUDA graphs are to XLA: commands enqueued in between do not run, but can be launched any number of times.
  void BeginCapture(gpu::CudaStream stream);
  void EndCapture(gpu::CudaStream stream);
  void LaunchGraph(gpu::CudaStream stream);

  // False if the streams of the device have not become idle in `seconds`.
  bool Synchronize(double seconds = 20);
  // What each stream that is not idle waits for, for a failed test's log.
  std::string Blocked() const;
  bool trapped() const;
  // Streams go on only while this is not set.
  void Pause(bool paused);

 private:
  struct Device;
  friend struct DoubleCalls;
  std::unique_ptr<Device> device_;
};

// CPU build of a kernel, and the size of its argument.
struct Kernel {
  void (*run)(void* argument, unsigned grid, unsigned block);
  size_t argument_bytes;
};
// By the name in kernels.cu, or null.
const Kernel* FindKernel(const char* name);

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_NVSHMEM_GPU_CUDA_DOUBLE_H_
