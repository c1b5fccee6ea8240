// One GPU: stream commands over the CUDA driver and NVSHMEM, with the bookkeeping that both leave to the caller
// (contexts, events, errors).
//
// All calls except the queries enqueue and return. The first failure of a call is kept, and the commands after it are
// skipped. So callers enqueue a whole transfer and call TakeError once.
#ifndef XLA_SHMEM_NVSHMEM_GPU_DEVICE_H_
#define XLA_SHMEM_NVSHMEM_GPU_DEVICE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "xla_patch/nvshmem/api.h"
#include "xla_patch/nvshmem/gpu/cuda_driver.h"
#include "xla_patch/nvshmem/gpu/driver_heap.h"
#include "xla_patch/nvshmem/gpu/kernels/arguments.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::gpu {

// The calls that carry puts, signals and waits.
//
//   kNvshmem  NVSHMEM's on-stream calls. Between GPUs that reach each other by loads and stores, puts are copies by the
//             copy engines. A wait is a stream memory operation only if the device can flush remote writes
//             (CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES); otherwise it is a kernel that spins.
//   kDriver   the driver's copies and stream memory operations on the addresses that nvshmem_ptr returns. Needed for
//             PEs that share a GPU: there NVSHMEM refuses its own calls without MPS.
enum class Puts { kNvshmem, kDriver };

// How signals travel with Puts::kDriver.
//
//   kWrites  as stream memory operations. From CUDA 13.1 on the driver does not support these on memory of other GPUs,
//            says NVIDIA in issue 2052 of NCCL
//   kCopies  the stream writes this PE's own instance of the word, which nothing else uses, and copies it to the peer
enum class Signals { kWrites, kCopies };
inline constexpr int kFirstDriverWithoutRemoteWrites = 13010;
// Before CUDA 12.5 a fault of the driver keeps stream memory operations from the memory of cuMemCreate, which NVSHMEM's
// heap is (src/host/init/init.cu of NVSHMEM 3.4; ce_coll.cc of NCCL 2.28).
inline constexpr int kFirstDriverWithStreamWords = 12050;

// An event that returns to its device's pool with the last reference.
using EventRef = std::shared_ptr<void>;

class Device {
 public:
  // `context` is the primary context of the GPU; the tables must outlive the device.
  Device(const CudaDriver* cuda, const NvshmemApi* shmem, Puts puts, CudaContext context)
      : cuda_(cuda), shmem_(shmem), puts_(puts), context_(context) {}
  // Before the first command.
  void SetPuts(Puts puts) { puts_ = puts; }
  // Null: symmetric memory is NVSHMEM's.
  void SetHeap(const DriverHeap* heap) { heap_ = heap; }
  void SetSignals(Signals signals) { signals_ = signals; }
  // Kernels get a memory synchronization domain of their own (CUDA Programming Guide), so that fences of XLA's kernels
  // do not wait for stores to other GPUs. Needs compute capability 9.0.
  void UseRemoteDomain() { remote_domain_ = cuda_->launch_kernel_ex != nullptr; }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // `image`: kernels/kernels.cu compiled for this GPU (cubin or PTX). Error if the driver refuses it.
  Status LoadKernels(const void* image);
  // Whether `image` has the kernel for reductions in the NVLink switch, which old compilers leave out.
  bool has_switch_reduction() const { return functions_.count("switch_reduction") != 0; }
  // A stream of the highest priority, so that transfers do not queue behind compute. Null, with the error kept, on
  // failure.
  CudaStream CreateStream();

  void Copy(void* destination, const void* source, size_t bytes, CudaStream stream);
  void Fill(void* destination, unsigned char value, size_t bytes, CudaStream stream);
  // Run the kernels of the collectives (kernels/kernels.cu).
  void LaunchCollective(const CollectiveArguments& arguments, unsigned blocks, unsigned threads, CudaStream stream);
  void LaunchRaggedAllToAll(const RaggedArguments& arguments, unsigned blocks, unsigned threads, CudaStream stream);
  enum class Half { kSend, kReceive };
  void LaunchSplit(Half half, const SplitArguments& arguments, unsigned blocks, unsigned threads, CudaStream stream);

  // Pinned memory that the host and the GPU read and write at one address, zeroed. Never freed. Null, with the error
  // kept, on failure.
  uint64_t* AllocateHostWords(size_t count);

  // An event behind everything that `stream` has now.
  enum class Timing : int { kUntimed, kTimed };
  EventRef Mark(CudaStream stream, Timing timing = Timing::kUntimed);
  void WaitFor(const EventRef& event, CudaStream stream);
  // Between two timed events that have been reached; 0 if the driver cannot tell.
  double MillisecondsBetween(const EventRef& from, const EventRef& to) const;
  // Makes `stream` wait for everything that `other` has now.
  void Order(CudaStream stream, CudaStream other);

  bool Capturing(CudaStream stream);
  enum class Progress { kRunning, kDone, kFailed };
  Progress Query(const EventRef& event) const;
  // kDone once all are reached, kFailed if one has failed.
  Progress QueryAll(const std::vector<EventRef>& events) const;
  // Before the first ReadWords.
  void PrepareReads();
  static constexpr size_t kMaxReadWords = 16;
  // Reads words of device memory from the host, through pinned memory and on a stream of its own. Empty if the copy has
  // not run in time: the stream may share a hardware queue with one that waits. It is then empty at once until that
  // copy has run. One thread at a time may call it.
  std::vector<uint64_t> ReadWords(const uint64_t* words, size_t count, std::chrono::milliseconds time);
  // Ends all streams of the context with an error, also those that wait.
  void Trap(CudaStream stream);

  // The first failure since the last call, if there is one.
  Status TakeError();
  void* PeerAddress(const void* local, int pe) const {
    return heap_ != nullptr ? heap_->PeerAddress(local, pe) : shmem_->ptr(local, pe);
  }

 private:
  friend class BatchedStream;
  friend class ScopedContext;
  void Check(int result, const char* call);
  bool failed() const;
  void Launch(const std::string& kernel, unsigned grid, unsigned block, const void* argument, CudaStream stream);

  const CudaDriver* const cuda_;
  const NvshmemApi* const shmem_;
  const DriverHeap* heap_ = nullptr;
  Puts puts_;
  Signals signals_ = Signals::kWrites;
  bool remote_domain_ = false;
  const CudaContext context_;
  CudaModule module_ = nullptr;
  std::unordered_map<std::string, CudaFunction> functions_;  // all of them, from LoadKernels on
  CudaStream read_stream_ = nullptr;
  uint64_t* landing_ = nullptr;  // of ReadWords

  mutable std::mutex mutex_;  // guards the members below
  std::string error_;
  std::vector<CudaEvent> idle_events_[2];  // by Timing

  EventRef unfinished_read_;  // behind a copy to `landing_` that has not run
};

// Makes the device's context current on this thread.
class ScopedContext {
 public:
  explicit ScopedContext(const Device& device) : cuda_(device.cuda_) { cuda_->ctx_push_current(device.context_); }
  ~ScopedContext() {
    CudaContext popped;
    cuda_->ctx_pop_current(&popped);
  }
  ScopedContext(const ScopedContext&) = delete;
  ScopedContext& operator=(const ScopedContext&) = delete;

 private:
  const CudaDriver* const cuda_;
};

// A stream whose signals and waits are collected until another command comes, so that neighbours become one command.
// Flush before other code uses the stream, and where the order among streams matters: streams may share a hardware
// queue (docs/protocol.md, "Order").
//
// `dest` and `word` are local addresses of symmetric objects; a put or signal reaches the same objects on `pe`.
// `source` must not change until the command has run. The receiver sees a signal after all earlier puts of this stream.
class BatchedStream {
 public:
  BatchedStream(Device* device, CudaStream stream) : device_(device), stream_(stream) {}
  BatchedStream(const BatchedStream&) = delete;
  BatchedStream& operator=(const BatchedStream&) = delete;

  void Put(void* dest, const void* source, size_t bytes, int pe);
  void PutSignal(void* dest, const void* source, size_t bytes, uint64_t* word, uint64_t value, int pe);
  void Signal(uint64_t* word, uint64_t value, int pe);
  // Of words in this device's memory.
  void WaitAtLeast(uint64_t* word, uint64_t value) { Wait(word, value, kWaitGreaterOrEqual); }
  void WaitEqual(uint64_t* word, uint64_t value) { Wait(word, value, kWaitEqual); }
  void Copy(void* destination, const void* source, size_t bytes);
  void Fill(void* destination, unsigned char value, size_t bytes);
  // Enqueues what was collected, in one command if the driver can.
  void Flush();

 private:
  bool by_nvshmem() const { return device_->puts_ == Puts::kNvshmem; }
  // Whether a signal is a write of this PE's word and a put of it (Signals::kCopies).
  bool CopiesSignal(const uint64_t* word, int pe) const;
  void Write(void* word, uint64_t value);
  void Wait(uint64_t* word, uint64_t value, unsigned flags);

  Device* const device_;
  const CudaStream stream_;
  std::vector<BatchedOperation> operations_;  // not enqueued yet
};

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_DEVICE_H_
