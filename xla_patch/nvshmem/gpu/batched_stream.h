// A stream whose signals and waits are collected until another command comes, so that neighbours become one command.
#ifndef XLA_SHMEM_NVSHMEM_GPU_BATCHED_STREAM_H_
#define XLA_SHMEM_NVSHMEM_GPU_BATCHED_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "xla_patch/nvshmem/gpu/device.h"

namespace xla_shmem::gpu {

// The commands are those of Device. Flush before other code uses the stream, and where the order among streams matters:
// streams may share a hardware queue (docs/protocol.md, "Order").
class BatchedStream {
 public:
  BatchedStream(Device* device, CudaStream stream) : device_(device), stream_(stream) {}
  BatchedStream(const BatchedStream&) = delete;
  BatchedStream& operator=(const BatchedStream&) = delete;

  void Put(void* dest, const void* source, size_t bytes, int pe);
  void PutSignal(void* dest, const void* source, size_t bytes, uint64_t* word, uint64_t value, int pe);
  void Copy(void* destination, const void* source, size_t bytes);
  void Fill(void* destination, unsigned char value, size_t bytes);

  void Signal(uint64_t* word, uint64_t value, int pe);
  void WaitAtLeast(uint64_t* word, uint64_t value) { Add({MemoryOperation::Kind::kWaitAtLeast, word, value}); }
  void WaitEqual(uint64_t* word, uint64_t value) { Add({MemoryOperation::Kind::kWaitEqual, word, value}); }

  void Flush();

 private:
  void Add(const MemoryOperation& operation) { operations_.push_back(operation); }

  Device* const device_;
  const CudaStream stream_;
  std::vector<MemoryOperation> operations_;  // not enqueued yet
};

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_BATCHED_STREAM_H_
