// Streams: queues of work, each with a thread.
#include "driver/streams.h"

#include <cuda.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <thread>
#include <utility>

#include "driver/contexts.h"
#include "driver/graph_actions.h"
#include "driver/graphs.h"
#include "driver/log.h"
#include "driver/objects.h"
#include "driver/settings.h"

void CUstream_st::Start() {
  if (started) return;
  started = true;
  std::thread([this] { Run(); }).detach();
}

bool CUstream_st::Idle() {
  const std::lock_guard<std::mutex> lock(mutex);
  return queue.empty() && !busy;
}

void CUstream_st::Wait() {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return queue.empty() && !busy; });
}

void CUstream_st::Run() {
  std::unique_lock<std::mutex> lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return !queue.empty(); });
    auto work = std::move(queue.front());
    queue.pop_front();
    busy = true;
    lock.unlock();
    // GPU_EMULATOR_JITTER: the most microseconds before a piece of work, by which streams get ahead of each other.
    static const int64_t jitter = emulator::Setting("JITTER", 0);
    if (jitter > 0) usleep(static_cast<useconds_t>(random() % jitter));
    if (!emulator::failed) work();
    lock.lock();
    busy = false;
    changed.notify_all();
  }
}

namespace emulator {

CUstream Resolve(CUstream stream) {
  if (stream != nullptr && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD) return stream;
  CUcontext context = Current() != nullptr ? Current() : &DeviceOf(0).primary;
  context->null_stream.device = context->device;
  return &context->null_stream;
}

CUresult Enqueue(CUstream handle, CUgraphNodeType type, std::function<void()> work) {
  if (failed) return kFailed;
  CUstream stream = Resolve(handle);
  {
    const Lock lock(Global());
    if (stream->capture != nullptr) {
      stream->tail = {AddNode(stream->capture, PlainAction(type, std::move(work)), stream->tail)};
      return CUDA_SUCCESS;
    }
    stream->Start();
  }
  const std::lock_guard<std::mutex> lock(stream->mutex);
  stream->queue.push_back(std::move(work));
  stream->changed.notify_all();
  return CUDA_SUCCESS;
}

extern "C" {

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  if (Current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const Lock lock(Global());
  *stream = new CUstream_st;
  (*stream)->device = CurrentDevice();
  (*stream)->flags = flags;
  (*stream)->priority = priority;
  (*stream)->id = NextId();
  Current()->streams.insert(*stream);
  return CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream* stream, unsigned flags) { return cuStreamCreateWithPriority(stream, flags, 0); }
CUresult cuStreamDestroy(CUstream stream) {
  const Lock lock(Global());
  DeviceOf(stream->device).primary.streams.erase(stream);  // its thread drains and stays: a leak of the prototype
  return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream stream) { return Resolve(stream)->Wait(), failed ? kFailed : CUDA_SUCCESS; }
CUresult cuStreamQuery(CUstream stream) {
  return failed ? kFailed : Resolve(stream)->Idle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult cuStreamGetPriority(CUstream stream, int* priority) {
  return *priority = Resolve(stream)->priority, CUDA_SUCCESS;
}
CUresult cuStreamGetFlags(CUstream stream, unsigned* flags) { return *flags = Resolve(stream)->flags, CUDA_SUCCESS; }
CUresult cuStreamGetId(CUstream stream, unsigned long long* id) { return *id = Resolve(stream)->id, CUDA_SUCCESS; }
CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  return *context = &DeviceOf(Resolve(stream)->device).primary, CUDA_SUCCESS;
}
CUresult cuStreamGetDevice(CUstream stream, CUdevice* device) {
  return *device = Resolve(stream)->device, CUDA_SUCCESS;
}
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  TRACE("cuLaunchHostFunc");
  return Enqueue(stream, CU_GRAPH_NODE_TYPE_HOST, [=] { function(data); });
}
CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback function, void* data, unsigned) {
  return Enqueue(stream, CU_GRAPH_NODE_TYPE_HOST, [=] { function(stream, CUDA_SUCCESS, data); });
}

}  // extern "C"

}  // namespace emulator
