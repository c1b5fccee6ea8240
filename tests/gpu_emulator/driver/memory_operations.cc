#include "driver/memory_operations.h"

#include <cuda.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <type_traits>
#include <vector>

#include "driver/device_view.h"
#include "driver/log.h"
#include "driver/objects.h"
#include "driver/streams.h"

namespace emulator {
namespace {

template <typename T>
bool IsReached(T seen, T value, unsigned flags) {
  switch (flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return static_cast<std::make_signed_t<T>>(seen - value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return seen == value;
    case CU_STREAM_WAIT_VALUE_AND:
      return (seen & value) != 0;
    default:
      return static_cast<T>(~(seen | value)) != 0;
  }
}

template <typename T>
void Wait(CUdeviceptr address, T value, unsigned flags) {
  const T* word = DeviceView<const T>(address);
  while (!failed && !IsReached(__atomic_load_n(word, __ATOMIC_ACQUIRE), value, flags)) usleep(20);
}

template <typename T>
void Write(CUdeviceptr address, T value) {
  __atomic_store_n(DeviceView<T>(address), value, __ATOMIC_RELEASE);
}

void Run(const CUstreamBatchMemOpParams& op) {
  switch (op.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      return Wait<uint32_t>(op.waitValue.address, op.waitValue.value, op.waitValue.flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return Wait<uint64_t>(op.waitValue.address, op.waitValue.value64, op.waitValue.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      return Write<uint32_t>(op.writeValue.address, op.writeValue.value);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return Write<uint64_t>(op.writeValue.address, op.writeValue.value64);
    default:
      return;  // memory of the emulator is coherent: nothing to flush
  }
}

bool IsValid(const CUstreamBatchMemOpParams& op) {
  constexpr unsigned kWaitFlags = 3u | CU_STREAM_WAIT_VALUE_FLUSH,
                     kWriteFlags = CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER;
  switch (op.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return op.waitValue.address != 0 && (op.waitValue.flags & ~kWaitFlags) == 0 &&
             op.waitValue.address % (op.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ? 4 : 8) == 0;
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return op.writeValue.address != 0 && (op.writeValue.flags & ~kWriteFlags) == 0 &&
             op.writeValue.address % (op.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 ? 4 : 8) == 0;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
    case CU_STREAM_MEM_OP_BARRIER:
      return true;
    default:
      return false;
  }
}

CUresult EnqueueBatch(CUstream stream, unsigned count, const CUstreamBatchMemOpParams* operations) {
  auto work = MemoryOperationsWork(count, operations);
  if (work == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Enqueue(stream, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, std::move(work));
}

CUresult EnqueueWait(CUstream stream, CUstreamBatchMemOpType type, CUdeviceptr address, uint64_t value,
                     unsigned flags) {
  TRACE("cuStreamWaitValue%d %p value %lu flags %u stream %p", type == CU_STREAM_MEM_OP_WAIT_VALUE_32 ? 32 : 64,
        reinterpret_cast<void*>(address), static_cast<unsigned long>(value), flags, static_cast<void*>(stream));
  CUstreamBatchMemOpParams op{};
  op.waitValue = {type, address, {}, flags, 0};
  op.waitValue.value64 = value;
  return EnqueueBatch(stream, 1, &op);
}

CUresult EnqueueWrite(CUstream stream, CUstreamBatchMemOpType type, CUdeviceptr address, uint64_t value,
                      unsigned flags) {
  TRACE("cuStreamWriteValue%d %p value %lu flags %u stream %p", type == CU_STREAM_MEM_OP_WRITE_VALUE_32 ? 32 : 64,
        reinterpret_cast<void*>(address), static_cast<unsigned long>(value), flags, static_cast<void*>(stream));
  CUstreamBatchMemOpParams op{};
  op.writeValue = {type, address, {}, flags, 0};
  op.writeValue.value64 = value;
  return EnqueueBatch(stream, 1, &op);
}

}  // namespace

std::function<void()> MemoryOperationsWork(unsigned count, const CUstreamBatchMemOpParams* operations) {
  constexpr unsigned kMostOperations = 256;  // of a batch, as the driver documents
  if (count == 0 || count > kMostOperations || operations == nullptr) return nullptr;
  const std::vector<CUstreamBatchMemOpParams> batch(operations, operations + count);
  for (const CUstreamBatchMemOpParams& op : batch) {
    if (!IsValid(op)) return nullptr;
  }
  return [batch] {
    for (const CUstreamBatchMemOpParams& op : batch) Run(op);
  };
}

extern "C" {

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  return EnqueueWait(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags);
}
CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
  return EnqueueWait(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, address, value, flags);
}
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  return EnqueueWrite(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, flags);
}
CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
  return EnqueueWrite(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, address, value, flags);
}
CUresult cuStreamBatchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams* operations, unsigned flags) {
  return flags != 0 ? CUDA_ERROR_INVALID_VALUE : EnqueueBatch(stream, count, operations);
}

}  // extern "C"

}  // namespace emulator
