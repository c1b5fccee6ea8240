// Puts, signals and waits on streams: copies and stream memory operations on the caller's stream. As in the real
// library drivers before CUDA 12.5 get a copy for a signal and a kernel for a wait.
#include <cuda.h>

#include <atomic>
#include <string>

#include "driver/memory_operations.h"
#include "driver/settings.h"
#include "nvshmem/world.h"

namespace emulator::nvshmem {
namespace {

enum SignalOp { kSet = 9, kAdd = 10 };  // nvshmemx_signal_op_t
enum Compare { kEqual = 0, kGreaterOrEqual = 5 };
constexpr int kFirstWithMemoryOperations = 12050;

CUdeviceptr Address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

void Check(CUresult result, const char* call) {
  // The real library ends the process too.
  if (result != CUDA_SUCCESS) Refuse(std::string(call) + ": the driver returns " + std::to_string(result));
}

void CheckCall(const char* call, const void* symmetric, size_t bytes, int pe, CUstream stream) {
  CheckOnStream(call, stream);
  Demand(pe >= 0 && pe < TheWorld().size, std::string(call) + " for PE " + std::to_string(pe));
  CheckSymmetric(call, symmetric, bytes);
}

void CheckSignal(const char* call, const uint64_t* word, int op) {
  Demand(reinterpret_cast<uintptr_t>(word) % sizeof(*word) == 0, std::string(call) + " of a word that is not aligned");
  Demand(op == kSet || op == kAdd, std::string(call) + " with operation " + std::to_string(op));
}

void Add(uint64_t* word, uint64_t value, CUstream stream) {
  struct Addend {
    uint64_t *word, value;
  };
  const auto add = [](void* data) {  // not freed: a graph may run it again
    const auto* addend = static_cast<Addend*>(data);
    __atomic_fetch_add(addend->word, addend->value, __ATOMIC_ACQ_REL);
  };
  Check(cuLaunchHostFunc(stream, add, new Addend{word, value}), "cuLaunchHostFunc");
}

void Signal(uint64_t* word, uint64_t value, int op, CUstream stream) {
  if (op == kAdd) return Add(word, value, stream);
  if (DriverVersion() < kFirstWithMemoryOperations) {
    return Check(cuMemcpyHtoDAsync(Address(word), &value, sizeof(value), stream), "cuMemcpyHtoDAsync");
  }
  Check(cuStreamWriteValue64(stream, Address(word), value, 0), "cuStreamWriteValue64");
}

}  // namespace

extern "C" {

void nvshmemx_putmem_on_stream(void* to, const void* from, size_t bytes, int pe, CUstream stream) {
  CheckCall("nvshmemx_putmem_on_stream", to, bytes, pe, stream);
  if (bytes != 0) Check(cuMemcpyAsync(Address(OnPe(to, pe)), Address(from), bytes, stream), "cuMemcpyAsync");
}

void nvshmemx_signal_op_on_stream(uint64_t* word, uint64_t value, int op, int pe, CUstream stream) {
  CheckSignal("nvshmemx_signal_op_on_stream", word, op);
  CheckCall("nvshmemx_signal_op_on_stream", word, sizeof(*word), pe, stream);
  Signal(reinterpret_cast<uint64_t*>(OnPe(word, pe)), value, op, stream);
}

void nvshmemx_putmem_signal_on_stream(void* to, const void* from, size_t bytes, uint64_t* word, uint64_t value, int op,
                                      int pe, CUstream stream) {
  CheckSignal("nvshmemx_putmem_signal_on_stream", word, op);
  CheckCall("nvshmemx_putmem_signal_on_stream", word, sizeof(*word), pe, stream);
  nvshmemx_putmem_on_stream(to, from, bytes, pe, stream);
  Signal(reinterpret_cast<uint64_t*>(OnPe(word, pe)), value, op, stream);
}

void nvshmemx_signal_wait_until_on_stream(uint64_t* word, int compare, uint64_t value, CUstream stream) {
  constexpr char kCall[] = "nvshmemx_signal_wait_until_on_stream";
  CheckSignal(kCall, word, kSet);
  CheckCall(kCall, word, sizeof(*word), TheWorld().me, stream);
  Demand(compare == kEqual || compare == kGreaterOrEqual,
         std::string(kCall) + " with comparison " + std::to_string(compare) + ", which is not emulated");
  const unsigned flags = compare == kEqual ? CU_STREAM_WAIT_VALUE_EQ : CU_STREAM_WAIT_VALUE_GEQ;
  if (DriverVersion() < kFirstWithMemoryOperations) {
    return Check(gpu_emulator_spin(stream, Address(word), value, flags), "a kernel that waits");
  }
  Check(cuStreamWaitValue64(stream, Address(word), value, flags), "cuStreamWaitValue64");
}

// Copies to peers are complete when the stream has run them.
void nvshmemx_quiet_on_stream(CUstream stream) {
  Initialized("nvshmemx_quiet_on_stream");
  Demand(stream != nullptr, "nvshmemx_quiet_on_stream on the null stream");
}

}  // extern "C"

}  // namespace emulator::nvshmem
