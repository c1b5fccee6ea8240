// Stream memory operations: waits for a word and writes of one.
#include <cuda.h>
#include <unistd.h>

#include <cstdint>
#include <type_traits>

#include "driver/log.h"
#include "driver/objects.h"
#include "driver/streams.h"

namespace emulator {

namespace {

template <typename T>
CUresult WaitValue(CUstream stream, CUdeviceptr address, T value, unsigned flags) {
  TRACE("cuStreamWaitValue%zu %p value %lu flags %u stream %p", 8 * sizeof(T), (void*)address, (unsigned long)value,
        flags, (void*)stream);
  return Enqueue(stream, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, [=] {
    const auto* word = reinterpret_cast<const T*>(address);
    for (;;) {
      const T seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
      using Signed = std::make_signed_t<T>;
      const unsigned kind = flags & 3;
      if (kind == CU_STREAM_WAIT_VALUE_GEQ   ? static_cast<Signed>(seen - value) >= 0
          : kind == CU_STREAM_WAIT_VALUE_EQ  ? seen == value
          : kind == CU_STREAM_WAIT_VALUE_AND ? (seen & value) != 0
                                             : static_cast<T>(~(seen | value)) != 0) {
        return;
      }
      if (failed) return;
      usleep(20);
    }
  });
}
template <typename T>
CUresult WriteValue(CUstream stream, CUdeviceptr address, T value) {
  TRACE("cuStreamWriteValue%zu %p value %lu stream %p", 8 * sizeof(T), (void*)address, (unsigned long)value,
        (void*)stream);
  return Enqueue(stream, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                 [=] { __atomic_store_n(reinterpret_cast<T*>(address), value, __ATOMIC_RELEASE); });
}

}  // namespace

extern "C" {

CUresult cuStreamWaitValue32(CUstream s, CUdeviceptr a, cuuint32_t v, unsigned f) {
  return WaitValue<uint32_t>(s, a, v, f);
}
CUresult cuStreamWaitValue64(CUstream s, CUdeviceptr a, cuuint64_t v, unsigned f) {
  return WaitValue<uint64_t>(s, a, v, f);
}
CUresult cuStreamWriteValue32(CUstream s, CUdeviceptr a, cuuint32_t v, unsigned) {
  return WriteValue<uint32_t>(s, a, v);
}
CUresult cuStreamWriteValue64(CUstream s, CUdeviceptr a, cuuint64_t v, unsigned) {
  return WriteValue<uint64_t>(s, a, v);
}
CUresult cuStreamBatchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams* operations, unsigned) {
  for (unsigned i = 0; i < count; ++i) {
    const auto& op = operations[i];
    switch (op.operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        cuStreamWaitValue32(stream, op.waitValue.address, op.waitValue.value, op.waitValue.flags);
        break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        cuStreamWaitValue64(stream, op.waitValue.address, op.waitValue.value64, op.waitValue.flags);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        cuStreamWriteValue32(stream, op.writeValue.address, op.writeValue.value, 0);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        cuStreamWriteValue64(stream, op.writeValue.address, op.writeValue.value64, 0);
        break;
      default:
        break;  // flushes and barriers
    }
  }
  return CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace emulator
