// The device behind a double of the CUDA driver: streams, events, and the thread that runs commands. Only for
// cuda_double.cc.
#ifndef XLA_SHMEM_TESTS_NVSHMEM_GPU_CUDA_DOUBLE_DEVICE_H_
#define XLA_SHMEM_TESTS_NVSHMEM_GPU_CUDA_DOUBLE_DEVICE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "tests/doubles/cuda_stream.h"
#include "tests/nvshmem/gpu/cuda_double.h"

namespace xla_shmem::testing {

// Each record has a word of its own: waits are bound to the record that was the last when they were enqueued. It
// becomes the time at which the record is reached, in nanoseconds.
struct DoubleEvent {
  bool timed = false;
  uint64_t never_recorded = 1;
  uint64_t* reached = &never_recorded;
};

// A launch of a kernel. A graph repeats it.
class DoubleLaunch {
 public:
  // The parameters are copied. `trapped` is set if the kernel ends with a trap.
  DoubleLaunch(const Kernel* kernel, const void* argument, unsigned blocks, bool* trapped);
  ~DoubleLaunch();
  DoubleLaunch(const DoubleLaunch&) = delete;
  DoubleLaunch& operator=(const DoubleLaunch&) = delete;

  // Starts the kernel if it does not run; true once it has ended. Called by the device's thread.
  bool Poll();
  const Kernel* kernel() const { return kernel_; }
  // Ends a kernel that waits, as a trap on the device does.
  void End();

 private:
  const Kernel* const kernel_;
  std::vector<char> argument_;
  const unsigned blocks_;
  bool* const trapped_;
  std::vector<std::thread> threads_;
  std::atomic<unsigned> running_{0};
  std::atomic<bool> ended_by_trap_{false};
};

struct CudaDouble::Device {
  Device(unsigned seed, bool shares_queue) : one_queue(shares_queue), random(seed), thread([this] { Run(); }) {}

  struct Stream : nvshmem_double::Stream {
    explicit Stream(Device* of) : nvshmem_double::Stream(/*eager=*/false), device(of) {}
    Device* const device;
    bool capturing = false;
    std::vector<nvshmem_double::Command> graph;
  };

  void Run();
  // Each runs at most one command of each stream; true if something ran.
  bool RunInRandomOrder();
  bool RunQueue();

  const bool one_queue;
  std::mutex mutex;
  std::deque<Stream*> queue;  // with one_queue: the stream of each command
  std::deque<Stream> streams;
  std::deque<DoubleEvent> events;
  std::deque<uint64_t> records;
  std::deque<DoubleLaunch> launches;  // kept: graphs run them again
  size_t commands = 0;
  bool trapped = false;
  bool paused = false;
  bool stop = false;
  std::mt19937 random;
  size_t slow = 0;
  std::thread thread;
};

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_NVSHMEM_GPU_CUDA_DOUBLE_DEVICE_H_
