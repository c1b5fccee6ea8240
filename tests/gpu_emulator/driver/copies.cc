// Copies and memsets.
#include <cuda.h>

#include <cstring>
#include <memory>
#include <vector>

#include "driver/contexts.h"
#include "driver/log.h"
#include "driver/memory.h"
#include "driver/objects.h"
#include "driver/streams.h"

namespace emulator {

extern "C" {

#define COPY_ASYNC(stream, to, from, bytes)  \
  Enqueue(stream, CU_GRAPH_NODE_TYPE_MEMCPY, \
          [=] { memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes); })
#define COPY(to, from, bytes)                                                                                \
  (cuCtxSynchronizeNull(), memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes), \
   CUDA_SUCCESS)
static void cuCtxSynchronizeNull() {
  if (Current() != nullptr) Current()->null_stream.Wait();
}
CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) { return COPY(to, from, bytes); }
CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) { return COPY(to, from, bytes); }
CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) { return COPY(to, from, bytes); }
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) { return COPY(to, from, bytes); }
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes) {
  return COPY(to, from, bytes);
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  TRACE("cuMemcpyHtoDAsync %zu", bytes);
  // Pageable memory is read before the call returns.
  bool pageable;
  {
    const Lock lock(Global());
    pageable = Find(reinterpret_cast<uintptr_t>(from)) == Ranges().end();
  }
  if (!pageable || Resolve(stream)->capture != nullptr) return COPY_ASYNC(stream, to, from, bytes);
  auto staged =
      std::make_shared<std::vector<char>>(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
  return Enqueue(stream, CU_GRAPH_NODE_TYPE_MEMCPY,
                 [=] { memcpy(reinterpret_cast<void*>(to), staged->data(), bytes); });
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  TRACE("cuMemcpyDtoHAsync %zu", bytes);
  return COPY_ASYNC(stream, to, from, bytes);
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  TRACE("cuMemcpyDtoDAsync %zu", bytes);
  return COPY_ASYNC(stream, to, from, bytes);
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  TRACE("cuMemcpyAsync %zu %p <- %p stream %p", bytes, (void*)to, (void*)from, (void*)stream);
  return COPY_ASYNC(stream, to, from, bytes);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes, CUstream stream) {
  return COPY_ASYNC(stream, to, from, bytes);
}
CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count) { return Fill(to, value, count), CUDA_SUCCESS; }
CUresult cuMemsetD16(CUdeviceptr to, unsigned short value, size_t count) {
  return Fill(to, value, count), CUDA_SUCCESS;
}
CUresult cuMemsetD32(CUdeviceptr to, unsigned value, size_t count) { return Fill(to, value, count), CUDA_SUCCESS; }
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return Enqueue(stream, CU_GRAPH_NODE_TYPE_MEMSET, [=] { Fill(to, value, count); });
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return Enqueue(stream, CU_GRAPH_NODE_TYPE_MEMSET, [=] { Fill(to, value, count); });
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return Enqueue(stream, CU_GRAPH_NODE_TYPE_MEMSET, [=] { Fill(to, value, count); });
}

}  // extern "C"

}  // namespace emulator
