// libnccl.so.2: NCCL's public calls that XLA:GPU makes, over the emulated driver.
#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <random>
#include <set>
#include <string>

#include "nccl/communicator.h"
#include "nccl/group.h"
#include "nccl/nccl_numbers.h"
#include "nccl/reduction.h"
#include "nccl/windows.h"

namespace emulator::nccl {
namespace {

constexpr int kVersion = 22907;  // 2.29.7
constexpr char kNamePrefix[] = "/gpu-emulator-nccl-";

struct UniqueId {
  char name[128];
};

// The beginning of ncclCommProperties_t, of which the caller has filled in the first three.
struct Properties {
  size_t size;
  unsigned magic, version;
  int rank, ranks, device, nvml_device;
  bool has_device_calls, has_multimem;
  int gin;
  int link_teams;
  bool has_puts;
};

// ncclWaitSignalDesc_t.
struct WaitDescriptor {
  int count, peer, index, context;
};

std::mutex& Mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

std::set<Communicator*>& Live() {
  static auto* const live = new std::set<Communicator*>;
  return *live;
}

Communicator& Existing(Communicator* communicator, const char* call) {
  const std::lock_guard<std::mutex> lock(Mutex());
  Demand(Live().count(communicator) == 1, std::string(call) + " with a communicator that does not exist");
  return *communicator;
}

int Make(Communicator** communicator, int ranks, const UniqueId& id, int rank) {
  const std::string name(id.name, strnlen(id.name, sizeof(id.name)));
  Demand(name.rfind(kNamePrefix, 0) == 0, "this unique id is not of ncclGetUniqueId");
  CUcontext context = nullptr;
  Demand(cuCtxGetCurrent(&context) == CUDA_SUCCESS && context != nullptr, "a communicator without a CUDA context");
  return Enqueue([=] {
    Demand(cuCtxSetCurrent(context) == CUDA_SUCCESS, "no context for a communicator");
    auto* const made = new Communicator(name, ranks, rank);
    const std::lock_guard<std::mutex> lock(Mutex());
    Live().insert(made);
    *communicator = made;
  });
}

int End(Communicator* communicator, bool aborts) {
  Communicator& ended = Existing(communicator, aborts ? "ncclCommAbort" : "ncclCommDestroy");
  {
    const std::lock_guard<std::mutex> lock(Mutex());
    Live().erase(communicator);
  }
  // Streams may still run its operations, so an aborted one stays in memory.
  ended.Abort();
  DropWindows(&ended);
  return kSuccess;
}

// Of this process so far: collectives, sends and receives; puts, signals and waits; windows that were registered. What
// is captured counts once.
std::atomic<uint64_t> calls{0}, puts{0}, windows{0};

int Collective(const char* call, Communicator* communicator, const Operation& operation, CUstream stream) {
  const Communicator& existing = Existing(communicator, call);
  const bool reduces =
      operation.call == Call::kAllReduce || operation.call == Call::kReduceScatter || operation.call == Call::kReduce;
  if (BytesOf(operation.type) == 0 || operation.peer < 0 || operation.peer >= existing.ranks()) return kInvalidArgument;
  Demand(!reduces || IsReduced(operation.type, operation.reduction),
         Describe(operation) + " with reduction " + std::to_string(operation.reduction) + ", which is not emulated");
  const bool puts_or_waits = operation.call == Call::kPut || operation.call == Call::kWait;
  const bool sends = operation.call != Call::kReceive && operation.call != Call::kWait;
  const bool receives = operation.call != Call::kSend && !puts_or_waits;
  const bool complete = (operation.from != nullptr || !sends) && (operation.to != nullptr || !receives);
  // Only the root of a reduction needs a result, and only that of a broadcast an operand.
  const bool rooted = operation.call == Call::kReduce || operation.call == Call::kBroadcast;
  Demand(operation.count == 0 || complete || rooted, Describe(operation) + " with a null buffer");
  ++(puts_or_waits ? puts : calls);
  return Enqueue(communicator, operation, stream);
}

}  // namespace

extern "C" {

// For tests.
uint64_t ncclEmulatorCalls() { return calls; }
uint64_t ncclEmulatorPuts() { return puts; }
uint64_t ncclEmulatorWindows() { return windows; }

int ncclGetVersion(int* version) {
  *version = kVersion;
  return kSuccess;
}

const char* ncclGetErrorString(int result) {
  switch (result) {
    case kSuccess:
      return "no error";
    case kUnhandledCudaError:
      return "unhandled cuda error";
    case kInvalidArgument:
      return "invalid argument";
    case kInvalidUsage:
      return "invalid usage";
    default:
      return "unknown result code";
  }
}
const char* ncclGetLastError(Communicator*) { return ""; }

int ncclGetUniqueId(UniqueId* id) {
  std::random_device random;
  *id = {};
  snprintf(id->name, sizeof(id->name), "%s%08x%08x", kNamePrefix, random(), random());
  return kSuccess;
}

int ncclCommInitRank(Communicator** communicator, int ranks, UniqueId id, int rank) {
  return Make(communicator, ranks, id, rank);
}
int ncclCommInitRankConfig(Communicator** communicator, int ranks, UniqueId id, int rank, void*) {
  return Make(communicator, ranks, id, rank);
}
int ncclCommInitRankScalable(Communicator** communicator, int ranks, int rank, int ids, UniqueId* id, void*) {
  if (ids < 1) return kInvalidArgument;
  return Make(communicator, ranks, *id, rank);
}

int ncclCommInitAll(Communicator** communicators, int count, const int* devices) {
  if (communicators == nullptr || count < 1) return kInvalidArgument;
  UniqueId id{};
  ncclGetUniqueId(&id);
  StartGroup();
  for (int rank = 0; rank < count; ++rank) {
    const int device = devices == nullptr ? rank : devices[rank];
    CUcontext context = nullptr;
    Demand(cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS && cuCtxPushCurrent(context) == CUDA_SUCCESS,
           "ncclCommInitAll for device " + std::to_string(device));
    Make(&communicators[rank], count, id, rank);
    cuCtxPopCurrent(nullptr);
  }
  return EndGroup();
}

int ncclCommFinalize(Communicator* communicator) {
  Existing(communicator, "ncclCommFinalize");
  return kSuccess;
}
int ncclCommDestroy(Communicator* communicator) { return End(communicator, false); }
int ncclCommAbort(Communicator* communicator) { return End(communicator, true); }

int ncclCommGetAsyncError(Communicator* communicator, int* error) {
  Existing(communicator, "ncclCommGetAsyncError");
  *error = kSuccess;
  return kSuccess;
}
int ncclCommCount(Communicator* communicator, int* count) {
  *count = Existing(communicator, "ncclCommCount").ranks();
  return kSuccess;
}
int ncclCommUserRank(Communicator* communicator, int* rank) {
  *rank = Existing(communicator, "ncclCommUserRank").rank();
  return kSuccess;
}
int ncclCommCuDevice(Communicator* communicator, int* device) {
  *device = Existing(communicator, "ncclCommCuDevice").device();
  return kSuccess;
}

int ncclCommQueryProperties(Communicator* communicator, Properties* properties) {
  const Communicator& existing = Existing(communicator, "ncclCommQueryProperties");
  Demand(properties->size >= sizeof(Properties), "ncclCommProperties_t without its size");
  properties->rank = existing.rank();
  properties->ranks = existing.ranks();
  properties->device = existing.device();
  properties->nvml_device = -1;
  properties->has_device_calls = properties->has_multimem = false;
  properties->gin = 0;
  properties->link_teams = 1;
  properties->has_puts = true;
  return kSuccess;
}

int ncclCommRegister(Communicator* communicator, void* buffer, size_t bytes, void** handle) {
  Existing(communicator, "ncclCommRegister");
  if (buffer == nullptr || bytes == 0) return kInvalidArgument;
  *handle = buffer;
  return kSuccess;
}
int ncclCommDeregister(Communicator* communicator, void*) {
  Existing(communicator, "ncclCommDeregister");
  return kSuccess;
}
int ncclCommWindowRegister(Communicator* communicator, void* buffer, size_t bytes, Window** window, int flags) {
  Communicator* const existing = &Existing(communicator, "ncclCommWindowRegister");
  ++windows;
  return Enqueue([=] { *window = RegisterWindow(existing, buffer, bytes, flags); });
}
int ncclCommWindowDeregister(Communicator* communicator, Window* window) {
  DeregisterWindow(&Existing(communicator, "ncclCommWindowDeregister"), window);
  return kSuccess;
}

int ncclGroupStart() {
  StartGroup();
  return kSuccess;
}
int ncclGroupEnd() { return EndGroup(); }

int ncclAllReduce(const char* from, char* to, size_t count, int type, int reduction, Communicator* communicator,
                  CUstream stream) {
  return Collective("ncclAllReduce", communicator, {Call::kAllReduce, from, to, count, type, reduction, 0}, stream);
}
int ncclReduceScatter(const char* from, char* to, size_t count, int type, int reduction, Communicator* communicator,
                      CUstream stream) {
  return Collective("ncclReduceScatter", communicator, {Call::kReduceScatter, from, to, count, type, reduction, 0},
                    stream);
}
int ncclReduce(const char* from, char* to, size_t count, int type, int reduction, int root, Communicator* communicator,
               CUstream stream) {
  return Collective("ncclReduce", communicator, {Call::kReduce, from, to, count, type, reduction, root}, stream);
}
int ncclBroadcast(const char* from, char* to, size_t count, int type, int root, Communicator* communicator,
                  CUstream stream) {
  return Collective("ncclBroadcast", communicator, {Call::kBroadcast, from, to, count, type, 0, root}, stream);
}
int ncclAllGather(const char* from, char* to, size_t count, int type, Communicator* communicator, CUstream stream) {
  return Collective("ncclAllGather", communicator, {Call::kAllGather, from, to, count, type, 0, 0}, stream);
}
int ncclAlltoAll(const char* from, char* to, size_t count, int type, Communicator* communicator, CUstream stream) {
  return Collective("ncclAlltoAll", communicator, {Call::kAllToAll, from, to, count, type, 0, 0}, stream);
}
int ncclSend(const char* from, size_t count, int type, int peer, Communicator* communicator, CUstream stream) {
  return Collective("ncclSend", communicator, {Call::kSend, from, nullptr, count, type, 0, peer}, stream);
}
int ncclRecv(char* to, size_t count, int type, int peer, Communicator* communicator, CUstream stream) {
  return Collective("ncclRecv", communicator, {Call::kReceive, nullptr, to, count, type, 0, peer}, stream);
}
int ncclPutSignal(const char* from, size_t count, int type, int peer, Window* window, size_t offset, int index,
                  int context, unsigned flags, Communicator* communicator, CUstream stream) {
  Operation put{Call::kPut, from, nullptr, count, type, 0, peer, window, offset, {index, context}};
  Demand(window != nullptr && window->communicator == communicator, Describe(put) + " without a window");
  Demand(flags == 0, Describe(put) + " with flags");
  const uint64_t bytes = count * BytesOf(type);
  Demand(offset <= window->bytes && bytes <= window->bytes - offset, Describe(put) + " beyond the peer's window");
  DemandInWindow(Existing(communicator, "ncclPutSignal"), from, bytes, "ncclPutSignal");
  return Collective("ncclPutSignal", communicator, put, stream);
}
int ncclSignal(int peer, int index, int context, unsigned flags, Communicator* communicator, CUstream stream) {
  Demand(flags == 0, "ncclSignal with flags");
  return Collective("ncclSignal", communicator,
                    {Call::kPut, nullptr, nullptr, 0, kUint8, 0, peer, nullptr, 0, {index, context}}, stream);
}
int ncclWaitSignal(int count, const WaitDescriptor* waits, Communicator* communicator, CUstream stream) {
  StartGroup();
  for (const WaitDescriptor* wait = waits; wait != waits + count; ++wait) {
    Operation operation{Call::kWait};
    operation.count = static_cast<uint64_t>(wait->count);
    operation.peer = wait->peer;
    operation.signal = {wait->index, wait->context};
    Collective("ncclWaitSignal", communicator, operation, stream);
  }
  return EndGroup();
}

}  // extern "C"

}  // namespace emulator::nccl
