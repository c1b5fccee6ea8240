#include "driver/memory_operations.h"

#include <cuda.h>

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "driver/contexts.h"
#include "driver/handles.h"
#include "driver/log.h"
#include "driver/memory.h"
#include "driver/objects.h"
#include "driver/scheduler.h"
#include "driver/settings.h"
#include "driver/streams.h"

namespace emulator {
namespace {

constexpr unsigned kFewerThan = 256;  // operations of a batch, by the documentation
// Says NVIDIA in issue 2052 of NCCL. What the driver returns then is not known.
constexpr int kFirstWithoutRemoteWrites = 13010;
// A fault of earlier drivers, by init.cu of NVSHMEM and ce_coll.cc of NCCL.
constexpr int kFirstOnVirtualMemory = 12050;

template <typename T>
bool IsMet(T seen, T value, unsigned comparison) {
  using Signed = std::make_signed_t<T>;
  switch (comparison) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return static_cast<Signed>(seen - value) >= 0;
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
  const WorkName work("a wait for a word");
  CheckAccess(address, sizeof(T), Use::kRead, WorkingDevice(), RunningWork());
  const T* word = DeviceView<T>(address);
  BackOff back_off;
  while (!HasFailed(WorkingDevice()) && !IsMet(__atomic_load_n(word, __ATOMIC_ACQUIRE), value, flags & 3))
    back_off.Pause();
}

template <typename T>
void Write(CUdeviceptr address, T value) {
  const WorkName work("a write of a word");
  CheckAccess(address, sizeof(T), Use::kWrite, WorkingDevice(), RunningWork());
  __atomic_store_n(DeviceView<T>(address), value, __ATOMIC_RELEASE);
}

// The word lies in memory that the driver knows, at a multiple of its size, which the device supports.
CUresult CheckWord(CUdeviceptr address, size_t bytes, const char* call) {
  if (bytes == sizeof(uint64_t) && !HasWideMemoryOperations()) {
    Complain("%s: 64-bit operations (CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS)", call);
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const Lock lock(Global());
  if (address % bytes != 0) {
    Complain("%s: 0x%llx is no multiple of %zu", call, address, bytes);
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (const auto range = Find(address); range != Ranges().end()) {
    const auto& backing = range->second.backing;
    if (backing == nullptr || !backing->is_virtual || DriverVersion() >= kFirstOnVirtualMemory) return CUDA_SUCCESS;
    Complain("%s: memory of cuMemCreate, before CUDA 12.5", call);
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (IsDeviceAddress(address)) Die("%s: %s", call, Describe(address).c_str());
  Complain("%s: %s", call, Describe(address).c_str());
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult CheckWait(CUdeviceptr address, unsigned flags, size_t bytes, const char* call) {
  constexpr unsigned kComparisons = 3;
  if ((flags & CU_STREAM_WAIT_VALUE_FLUSH) != 0) {
    Complain("%s: the emulated GPU does not flush remote writes (CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES)", call);
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if ((flags & ~kComparisons) != 0) return CUDA_ERROR_INVALID_VALUE;
  return CheckWord(address, bytes, call);
}

CUresult CheckWrite(CUdeviceptr address, unsigned flags, size_t bytes, const char* call) {
  // The v2 API, which these are, does not support CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER (cuda.h).
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = CheckWord(address, bytes, call);
  if (result != CUDA_SUCCESS || DriverVersion() < kFirstWithoutRemoteWrites) return result;
  const Lock lock(Global());
  const auto range = Find(address);
  const auto& backing = range->second.backing;
  if (backing == nullptr || !IsRemote(*backing, WorkingDevice())) return CUDA_SUCCESS;
  Complain("%s: a write to memory of another GPU", call);
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult Check(const CUstreamBatchMemOpParams& operation, const char* call) {
  const auto& wait = operation.waitValue;
  const auto& write = operation.writeValue;
  switch (operation.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      return CheckWait(wait.address, wait.flags, 4, call);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return CheckWait(wait.address, wait.flags, 8, call);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      return CheckWrite(write.address, write.flags, 4, call);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return CheckWrite(write.address, write.flags, 8, call);
    case CU_STREAM_MEM_OP_BARRIER:
      return operation.memoryBarrier.flags <= CU_STREAM_MEMORY_BARRIER_TYPE_GPU ? CUDA_SUCCESS
                                                                                : CUDA_ERROR_INVALID_VALUE;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      Complain("%s: no operation %d", call, static_cast<int>(operation.operation));
      return CUDA_ERROR_INVALID_VALUE;
  }
}

void Run(const CUstreamBatchMemOpParams& operation) {
  const auto& wait = operation.waitValue;
  const auto& write = operation.writeValue;
  switch (operation.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      return Wait<uint32_t>(wait.address, wait.value, wait.flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return Wait<uint64_t>(wait.address, wait.value64, wait.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      return Write<uint32_t>(write.address, write.value);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return Write<uint64_t>(write.address, write.value64);
    default:
      return;  // a barrier: operations of a stream run in order here
  }
}

// As MemoryOperationsWork, with the reason.
CUresult MakeWork(unsigned count, const CUstreamBatchMemOpParams* operations, std::function<void()>* work,
                  const char* call) {
  if (operations == nullptr || count == 0 || count >= kFewerThan) {
    Complain("%s: %u operations; a batch has 1 to %u", call, count, kFewerThan - 1);
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::vector<CUstreamBatchMemOpParams> copy(operations, operations + count);
  for (const CUstreamBatchMemOpParams& operation : copy) {
    const CUresult result = Check(operation, call);
    if (result != CUDA_SUCCESS) return result;
  }
  *work = [copy = std::move(copy)] {
    for (const CUstreamBatchMemOpParams& operation : copy) Run(operation);
  };
  return CUDA_SUCCESS;
}

CUresult EnqueueOperations(CUstream stream, const CUstreamBatchMemOpParams* operations, unsigned count,
                           const char* call) {
  std::function<void()> work;
  const CUresult result = MakeWork(count, operations, &work, call);
  if (result != CUDA_SUCCESS) return result;
  return Enqueue(stream, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, std::move(work));
}

CUresult EnqueueWait(CUstream stream, CUstreamBatchMemOpType type, CUdeviceptr address, cuuint64_t value,
                     unsigned flags, const char* call) {
  TRACE("%s 0x%llx value %lu flags %u", call, address, value, flags);
  CUstreamBatchMemOpParams operation{};
  operation.operation = type;
  operation.waitValue.address = address;
  operation.waitValue.value64 = value;
  operation.waitValue.flags = flags;
  return EnqueueOperations(stream, &operation, 1, call);
}

CUresult EnqueueWrite(CUstream stream, CUstreamBatchMemOpType type, CUdeviceptr address, cuuint64_t value,
                      unsigned flags, const char* call) {
  TRACE("%s 0x%llx value %lu flags %u", call, address, value, flags);
  CUstreamBatchMemOpParams operation{};
  operation.operation = type;
  operation.writeValue.address = address;
  operation.writeValue.value64 = value;
  operation.writeValue.flags = flags;
  return EnqueueOperations(stream, &operation, 1, call);
}

}  // namespace

std::function<void()> MemoryOperationsWork(unsigned count, const CUstreamBatchMemOpParams* operations) {
  std::function<void()> work;
  return MakeWork(count, operations, &work, "a batch of memory operations") == CUDA_SUCCESS ? work : nullptr;
}

extern "C" {

CUresult gpu_emulator_treat_as_virtual(CUdeviceptr address) {
  const Lock lock(Global());
  const auto range = Find(address);
  if (range == Ranges().end() || range->second.backing == nullptr) return CUDA_ERROR_INVALID_VALUE;
  range->second.backing->is_virtual = true;
  return CUDA_SUCCESS;
}

CUresult gpu_emulator_spin(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned comparison) {
  return Enqueue(stream, CU_GRAPH_NODE_TYPE_KERNEL, [=] { Wait<uint64_t>(address, value, comparison); });
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  return EnqueueWait(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags, __func__);
}
CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
  return EnqueueWait(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, address, value, flags, __func__);
}
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  return EnqueueWrite(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, flags, __func__);
}
CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
  return EnqueueWrite(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, address, value, flags, __func__);
}
CUresult cuStreamBatchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams* operations, unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return EnqueueOperations(stream, operations, count, __func__);
}

}  // extern "C"

}  // namespace emulator
