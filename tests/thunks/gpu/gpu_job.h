// A job of GPUs for tests: for each PE a double of the driver, over the double of NVSHMEM, all in this process.
#ifndef XLA_SHMEM_TESTS_THUNKS_GPU_GPU_JOB_H_
#define XLA_SHMEM_TESTS_THUNKS_GPU_GPU_JOB_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/nvshmem/gpu/cuda_double.h"
#include "xla_patch/nvshmem/gpu/driver_heap.h"
#include "xla_patch/shm/heap.h"
#include "xla_patch/thunks/gpu/transfers.h"

namespace xla_shmem::testing {

// Of operations that the PEs start in one order.
inline constexpr uint32_t kTag = 0xabcdef01;

struct GpuJobOptions {
  int n_pes = 2;
  gpu::Puts puts = gpu::Puts::kDriver;
  gpu::Signals signals = gpu::Signals::kWrites;
  bool batches = true;  // the driver has batches of memory operations
  size_t arena_bytes = 256 << 10;
  size_t lane_bytes = 256 << 10;
  size_t split_bytes = 0;  // of split permutes; 0: there are none
  std::chrono::milliseconds deadline{20000};
  bool one_queue = false;  // all streams of a GPU share one hardware queue
  bool timed = false;      // collectives are followed with times
  bool multimem = false;   // reductions of all PEs are done in the switch
  GpuPermute permute = GpuPermute::kCopies;
  uint64_t first_message = 0;  // so many messages count as exchanged by every two PEs
  int most_lanes = gpu::LaneLayout::kMaxLanes;
  size_t packet_bytes = gpu::kPacketBytesOverNvlink;
  bool driver_heap = false;  // the driver makes the symmetric memory
};

class GpuJob {
 public:
  explicit GpuJob(const GpuJobOptions& options);
  ~GpuJob();

  struct Pe {
    std::unique_ptr<CudaDouble> cuda;
    std::unique_ptr<gpu::Device> device;
    std::unique_ptr<gpu::Watchdog> watchdog;
    std::unique_ptr<gpu::Timeline> timeline;
    std::unique_ptr<gpu::PairRings> rings;
    std::unique_ptr<gpu::KernelOperations> operations;
    std::unique_ptr<gpu::Lanes> lanes;
    std::unique_ptr<gpu::SplitPermutes> splits;
    std::unique_ptr<gpu::Transfers> transfers;
    gpu::CudaStream compute;  // XLA's stream
    std::vector<std::string> failures;
  };

  int n_pes() const { return static_cast<int>(pes_.size()); }
  Pe& pe(int number) { return *pes_[number]; }
  // In NVSHMEM's heap.
  char* lane_memory(int pe) const { return heap_->base(pe) + lane_memory_; }
  const gpu::PairLayout& layout() const { return layout_; }
  // Runs until the streams of all PEs are idle; false if they are not in time.
  bool Synchronize();

 private:
  void MakeDriverHeap(int n_pes, size_t bytes);
  // Address of an object of a PE, at `offset` in NVSHMEM's heap.
  char* Object(int pe, size_t offset, size_t bytes);
  // As after so many messages.
  static void SetMessages(const gpu::PairLayout& pairs, char* arena, const gpu::LaneLayout& lanes, char* lane_memory,
                          uint64_t messages);
  static void SetSplits(const gpu::SplitLayout& splits, char* memory, uint64_t messages);
  static void SetPackets(const gpu::LaneLayout& lanes, gpu::LaneUse use, char* lane_memory, uint64_t messages);

  std::unique_ptr<shm::Heap> heap_;
  size_t lane_memory_ = 0;
  gpu::PairLayout layout_;
  gpu::CudaDriver driver_;
  std::unique_ptr<gpu::DriverHeap> driver_heap_;
  std::vector<std::unique_ptr<Pe>> pes_;
};

// Runs `body` with the PE's context current, as XLA calls handlers.
template <typename Body>
auto OnDevice(GpuJob::Pe& pe, Body body) {
  const gpu::ScopedContext context(*pe.device);
  return body();
}

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_THUNKS_GPU_GPU_JOB_H_
