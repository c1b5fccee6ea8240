// Events.
#include <cuda.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <thread>

#include "driver/objects.h"
#include "driver/streams.h"

namespace emulator {

extern "C" {

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  *event = new CUevent_st;
  (*event)->flags = flags;
  return CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent event) { return delete event, CUDA_SUCCESS; }
CUresult cuEventRecord(CUevent event, CUstream handle) {
  CUstream stream = Resolve(handle);
  {
    const Lock lock(Global());
    if (stream->capture != nullptr) {
      event->capture = stream->capture;
      event->capture_nodes = stream->tail;
      return CUDA_SUCCESS;
    }
  }
  auto record = std::make_shared<Record>();
  {
    const std::lock_guard<std::mutex> lock(event->mutex);
    event->capture = nullptr;
    event->record = record;
  }
  return Enqueue(handle, CU_GRAPH_NODE_TYPE_EVENT_RECORD, [record] {
    record->when = std::chrono::steady_clock::now();
    record->reached.store(true);
  });
}
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned) { return cuEventRecord(event, stream); }
static std::shared_ptr<Record> RecordOf(CUevent event) {
  const std::lock_guard<std::mutex> lock(event->mutex);
  return event->record;
}
CUresult cuEventQuery(CUevent event) {
  const auto record = RecordOf(event);
  return failed ? kFailed : record == nullptr || record->reached.load() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
static void WaitFor(const std::shared_ptr<Record>& record) {
  for (int i = 0; record != nullptr && !record->reached.load() && !failed; ++i) {
    if (i < 100)
      std::this_thread::yield();
    else
      usleep(20);
  }
}
CUresult cuEventSynchronize(CUevent event) { return WaitFor(RecordOf(event)), failed ? kFailed : CUDA_SUCCESS; }
CUresult cuEventElapsedTime(float* ms, CUevent from, CUevent to) {
  const auto a = RecordOf(from), b = RecordOf(to);
  if (a == nullptr || b == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!a->reached || !b->reached) return CUDA_ERROR_NOT_READY;
  *ms = std::chrono::duration<float, std::milli>(b->when - a->when).count();
  return CUDA_SUCCESS;
}
CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned) {
  CUstream stream = Resolve(handle);
  {
    const Lock lock(Global());
    if (event->capture != nullptr) {  // the stream joins the capture
      if (stream->capture == nullptr) {
        stream->capture = event->capture;
        stream->capture_origin = false;
      }
      stream->tail.insert(stream->tail.end(), event->capture_nodes.begin(), event->capture_nodes.end());
      return CUDA_SUCCESS;
    }
  }
  auto record = RecordOf(event);
  if (record == nullptr) return CUDA_SUCCESS;
  return Enqueue(handle, CU_GRAPH_NODE_TYPE_WAIT_EVENT, [record] { WaitFor(record); });
}

}  // extern "C"

}  // namespace emulator
