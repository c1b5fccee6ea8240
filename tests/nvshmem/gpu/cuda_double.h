// Doubles the CUDA driver in tests: the table of cuda_driver.h over host streams (tests/doubles/cuda_stream.h).
//
// Each device has a thread that runs one command at a time from its streams in random order, never where a command is
// enqueued. So tests fail if code omits an event or frees a source too early. Kernels are those of kernels.cu, compiled
// for the CPU; one that waits for other devices has threads of its own. A trap ends all streams of the device and makes
// every later call fail, as on a GPU. Device addresses are host addresses. Calls that the driver would refuse fail; a
// call on the null stream ends the process.
#ifndef XLA_SHMEM_TESTS_NVSHMEM_GPU_CUDA_DOUBLE_H_
#define XLA_SHMEM_TESTS_NVSHMEM_GPU_CUDA_DOUBLE_H_

#include <memory>
#include <mutex>
#include <string>

#include "tests/doubles/cuda_stream.h"
#include "xla_patch/nvshmem/api.h"
#include "xla_patch/nvshmem/gpu/cuda_driver.h"
#include "xla_patch/nvshmem/gpu/reduction_kernels.h"

namespace xla_shmem::testing {

class CudaDouble {
 public:
  // `one_queue`: the device runs all commands in the order in which they were enqueued, whatever their streams, as a
  // GPU does whose streams share one hardware queue. Then only calls of Driver() may enqueue.
  explicit CudaDouble(unsigned seed = 1, bool one_queue = false);
  ~CudaDouble();

  static const gpu::CudaDriver& Driver();
  // NVSHMEM's calls, usable on streams of a double.
  static const NvshmemApi& Shmem();

  // Stops the stream's device while several commands are enqueued.
  static std::unique_lock<std::mutex> Lock(gpu::CudaStream stream);

  gpu::CudaContext context() const;
  gpu::CudaStream CreateStream();

  // A CUDA graph: commands enqueued in between do not run, but can be launched any number of times.
  void BeginCapture(gpu::CudaStream stream);
  void EndCapture(gpu::CudaStream stream);
  void LaunchGraph(gpu::CudaStream stream);

  // False if the streams of the device have not become idle in `seconds`. Under sanitizers a busy machine needs many.
  bool Synchronize(double seconds = 120);
  // The wait of each stream that is not idle, for the log of a failed test.
  std::string Blocked() const;
  bool trapped() const;
  // Commands of all streams so far.
  size_t commands() const;
  // Of them launches of this kernel.
  size_t launches(const std::string& kernel) const;
  // Streams run only while this is not set.
  void Pause(bool paused);

 private:
  struct Device;
  friend struct DoubleCalls;
  std::unique_ptr<Device> device_;
};

// CPU build of a kernel.
struct Kernel {
  bool (*run)(const void* argument, unsigned block, unsigned blocks);  // false: it ended with a trap
  size_t argument_bytes;
  bool waits;  // for other devices
};
// By the name in kernels.cu, or null.
const Kernel* FindKernel(const char* name);

// The reduction of the device code, by one thread.
void ReduceByKernel(const gpu::KernelReduction& reduction, const char* const* inputs, int count, size_t bytes,
                    char* output);

// How many peers the busiest thread of a block serves one after another: in copies, and where it looks at their words.
struct SerialSteps {
  int copies;
  int words;
};
SerialSteps CountSerialSteps(int members, unsigned threads);

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_NVSHMEM_GPU_CUDA_DOUBLE_H_
