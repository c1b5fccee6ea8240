// Streams: queues of work. scheduler.h says when the work runs.
#include "driver/streams.h"

#include <cuda.h>

#include <utility>

#include "driver/blocking.h"
#include "driver/capture.h"
#include "driver/contexts.h"
#include "driver/graph_actions.h"
#include "driver/graphs.h"
#include "driver/handles.h"
#include "driver/log.h"
#include "driver/objects.h"
#include "driver/scheduler.h"

namespace emulator {
namespace {

bool IsSpecial(CUstream stream) {
  return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

// The legacy default stream waits for all blocking streams, and they for it. Requires Global().
void AddLegacyDependencies(CUstream stream, Operation* operation) {
  CUstream null_stream = &stream->context->null_stream;
  if (stream == null_stream) {
    for (CUstream other : stream->context->streams) {
      if ((other->flags & CU_STREAM_NON_BLOCKING) != 0 || !IsBusy(other)) continue;
      operation->after.emplace_back(other, Submitted(other));
    }
  } else if ((stream->flags & CU_STREAM_NON_BLOCKING) == 0 && IsBusy(null_stream)) {
    operation->after.emplace_back(null_stream, Submitted(null_stream));
  }
}

}  // namespace

CUresult ResolveFor(const char* call, CUstream handle, CUstream* stream) {
  if (IsSpecial(handle)) {
    const CUresult result = RequireContext(call);
    if (result != CUDA_SUCCESS) return result;
    *stream = &Current()->null_stream;
  } else {
    if (!IsLive(HandleKind::kStream, handle, call)) return CUDA_ERROR_INVALID_HANDLE;
    *stream = handle;
  }
  return HasFailed((*stream)->device) ? kFailed : CUDA_SUCCESS;
}

CUstream Resolve(CUstream handle) {
  CUstream stream = nullptr;
  if (IsSpecial(handle)) {
    if (Current() == nullptr) Die("the null stream was used in a thread without a current context");
    stream = &Current()->null_stream;
  } else {
    if (!IsLive(HandleKind::kStream, handle, "a call on a stream")) Die("a stream that is not live was used");
    stream = handle;
  }
  return stream;
}

CUresult Enqueue(CUstream handle, CUgraphNodeType type, std::function<void()> work, uint64_t* number) {
  CUstream stream = nullptr;
  const CUresult result = ResolveFor("work on a stream", handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  AwaitRoom(stream);
  return EnqueueNow(handle, type, std::move(work), number);
}

CUresult EnqueueNow(CUstream handle, CUgraphNodeType type, std::function<void()> work, uint64_t* number) {
  if (number != nullptr) *number = 0;
  CUstream stream = nullptr;
  const CUresult result = ResolveFor("work on a stream", handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  const Lock lock(Global());
  if (stream->capture != nullptr) return CaptureAction(stream, PlainAction(type, std::move(work)));
  const CUresult legacy = CheckLegacyStream(stream, "work on a stream");
  if (legacy != CUDA_SUCCESS) return legacy;
  Operation operation;
  operation.type = type;
  operation.run = std::move(work);
  AddLegacyDependencies(stream, &operation);
  const uint64_t submitted = Submit(stream, std::move(operation));
  if (number != nullptr) *number = submitted;
  return CUDA_SUCCESS;
}

namespace {

// As ResolveFor; refused while the stream is being captured.
CUresult ResolveOutsideCapture(const char* call, CUstream handle, CUstream* stream) {
  const CUresult result = ResolveFor(call, handle, stream);
  if (result != CUDA_SUCCESS) return result;
  const Lock lock(Global());
  return CheckNotCapturing(*stream, call);
}

template <typename T>
CUresult Read(const char* call, CUstream handle, T CUstream_st::* member, T* value) {
  CUstream stream = nullptr;
  const CUresult result = ResolveFor(call, handle, &stream);
  if (result == CUDA_SUCCESS) *value = stream->*member;
  return result;
}

}  // namespace

extern "C" {

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  const CUresult result = RequireContext(__func__);
  if (result != CUDA_SUCCESS) return result;
  if (stream == nullptr || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CUcontext context = Current();
  const Lock lock(Global());
  *stream = new CUstream_st;
  (*stream)->context = context;
  (*stream)->device = context->device;
  (*stream)->flags = flags;
  (*stream)->priority = priority > 0 ? 0 : priority < kGreatestPriority ? kGreatestPriority : priority;
  (*stream)->id = static_cast<unsigned long long>(++context->created_streams) +
                  static_cast<unsigned long long>(context->device) * kStreamsOfDevice;
  (*stream)->hardware_queue = context->created_streams % HardwareQueues();
  context->streams.insert(*stream);
  HandleCreated(HandleKind::kStream, *stream);
  TRACE("%s %p: hardware queue %d", __func__, static_cast<void*>(*stream), (*stream)->hardware_queue);
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* stream, unsigned flags) { return cuStreamCreateWithPriority(stream, flags, 0); }

// Returns at once; the work that is there is still done.
CUresult cuStreamDestroy(CUstream stream) {
  const Lock lock(Global());
  if (!IsLive(HandleKind::kStream, stream, __func__)) return CUDA_ERROR_INVALID_HANDLE;
  LeaveCapture(stream);
  stream->context->streams.erase(stream);
  HandleDestroyed(HandleKind::kStream, stream, __func__);
  CloseStream(stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle) {
  CUstream stream = nullptr;
  const CUresult result = ResolveOutsideCapture(__func__, handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  stream->Wait();
  return HasFailed(stream->device) ? kFailed : CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream handle) {
  CUstream stream = nullptr;
  const CUresult result = ResolveOutsideCapture(__func__, handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (!stream->Idle()) return CUDA_ERROR_NOT_READY;
  return HasFailed(stream->device) ? kFailed : CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  return Read(__func__, handle, &CUstream_st::priority, priority);
}

CUresult cuStreamGetFlags(CUstream handle, unsigned* flags) {
  return Read(__func__, handle, &CUstream_st::flags, flags);
}

CUresult cuStreamGetId(CUstream handle, unsigned long long* id) { return Read(__func__, handle, &CUstream_st::id, id); }

CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  return Read(__func__, handle, &CUstream_st::context, context);
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) {
  return Read(__func__, handle, &CUstream_st::device, device);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  TRACE("%s", __func__);
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Enqueue(stream, CU_GRAPH_NODE_TYPE_HOST, [=] { function(data); });
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback function, void* data, unsigned flags) {
  if (function == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  CUstream resolved = nullptr;
  const CUresult result = ResolveOutsideCapture(__func__, stream, &resolved);
  if (result != CUDA_SUCCESS) return result;
  return Enqueue(stream, CU_GRAPH_NODE_TYPE_HOST, [=] { function(stream, CUDA_SUCCESS, data); });
}

}  // extern "C"

}  // namespace emulator
