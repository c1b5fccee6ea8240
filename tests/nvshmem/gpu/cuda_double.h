// Doubles the CUDA driver in tests: the table of cuda_driver.h over host streams (tests/doubles/cuda_stream.h).
//
// Each device has a thread that runs one command at a time from its streams in random order, never where a command is
// enqueued. So tests fail if code omits an event or frees a source too early. Kernels are those of kernels.cu, compiled
// for the CPU. A trap ends all streams of the device and makes every later call fail, as on a GPU. Device addresses are
// host addresses. Calls that the driver would refuse fail; a call on the null stream ends the process.
#ifndef XLA_SHMEM_TESTS_NVSHMEM_GPU_CUDA_DOUBLE_H_
#define XLA_SHMEM_TESTS_NVSHMEM_GPU_CUDA_DOUBLE_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/doubles/cuda_stream.h"
#include "xla_patch/nvshmem/api.h"
#include "xla_patch/nvshmem/gpu/cuda_driver.h"

namespace xla_shmem::testing {

class CudaDouble {
 public:
  // `one_queue`: the device runs all commands in the order in which they were enqueued, whatever their streams, as a
  // GPU does whose streams share one hardware queue. Then only calls of Driver() may enqueue.
  explicit CudaDouble(unsigned seed = 1, bool one_queue = false);
  ~CudaDouble();

  static const gpu::CudaDriver& Driver();
  // shm::Api's calls, usable on streams of a double.
  static const NvshmemApi& Shmem();
  // Of this thread, null if it has none.
  static gpu::CudaContext CurrentContext();

  // The same for callers that have only a stream.
  static void BeginCaptureOn(gpu::CudaStream stream);
  static std::vector<nvshmem_double::Command> EndCaptureOn(gpu::CudaStream stream);
  static void LaunchOn(gpu::CudaStream stream, const std::vector<nvshmem_double::Command>& graph);
  static bool SynchronizeStream(gpu::CudaStream stream, double seconds = 20);

  // Stops the stream's device while several commands are enqueued.
  static std::unique_lock<std::mutex> Lock(gpu::CudaStream stream);

  gpu::CudaContext context() const;
  gpu::CudaStream CreateStream();

  // A CUDA graph: commands enqueued in between do not run, but can be launched any number of times.
  void BeginCapture(gpu::CudaStream stream);
  void EndCapture(gpu::CudaStream stream);
  void LaunchGraph(gpu::CudaStream stream);

  // False if the streams of the device have not become idle in `seconds`.
  bool Synchronize(double seconds = 20);
  // The wait of each stream that is not idle, for the log of a failed test.
  std::string Blocked() const;
  bool trapped() const;
  // Streams run only while this is not set.
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
