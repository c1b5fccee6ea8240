// The calls of libcuda.so.1 that the GPU check makes and xla-shmem does not. Memory,
// graphs, times, and waiting for a stream.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/nvshmem/gpu/cuda_double.h"
#include "tests/nvshmem/gpu/cuda_errors.h"

extern "C" {

using namespace xla_shmem::testing;  // NOLINT(google-build-using-namespace)
using xla_shmem::gpu::CudaContext;
using xla_shmem::gpu::CudaEvent;
using xla_shmem::gpu::CudaStream;
using xla_shmem::gpu::DeviceAddress;
using Graph = std::vector<xla_shmem::nvshmem_double::Command>;

int cuCtxSetCurrent(CudaContext context) { return CudaDouble::Driver().ctx_push_current(context); }

// NVRTC asks for one where it finds a driver, and goes on without.
int cuGetExportTable(const void** table, const void* /*id*/) {
  *table = nullptr;
  return kNotFound;
}

int cuStreamCreate(CudaStream* stream, unsigned flags) {
  return CudaDouble::Driver().stream_create_with_priority(stream, flags, 0);
}
int cuStreamSynchronize(CudaStream stream) { return CudaDouble::SynchronizeStream(stream) ? 0 : kLaunchFailed; }

int cuStreamBeginCapture_v2(CudaStream stream, int /*mode*/) {
  CudaDouble::BeginCaptureOn(stream);
  return 0;
}
int cuStreamEndCapture(CudaStream stream, void** graph) {
  *graph = new Graph(CudaDouble::EndCaptureOn(stream));
  return 0;
}
int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long /*flags*/) {
  *executable = graph;
  return 0;
}
int cuGraphLaunch(void* executable, CudaStream stream) {
  CudaDouble::LaunchOn(stream, *static_cast<Graph*>(executable));
  return 0;
}

// Nothing takes the time it would on a GPU; a number that can be divided by will do.
int cuEventElapsedTime(float* milliseconds, CudaEvent /*begin*/, CudaEvent /*end*/) {
  *milliseconds = 1;
  return 0;
}

int cuMemAlloc_v2(DeviceAddress* address, size_t bytes) {
  constexpr size_t kAlignment = 256;
  void* memory = aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  *address = reinterpret_cast<DeviceAddress>(memory);
  return memory == nullptr ? kInvalidValue : 0;
}

int cuMemcpyDtoH_v2(void* destination, DeviceAddress source, size_t bytes) {
  memcpy(destination, reinterpret_cast<const void*>(source), bytes);
  return 0;
}

}  // extern "C"
