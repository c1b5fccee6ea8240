// Events.
#include <cuda.h>

#include <chrono>
#include <memory>
#include <mutex>

#include "driver/blocking.h"
#include "driver/capture.h"
#include "driver/contexts.h"
#include "driver/handles.h"
#include "driver/memory.h"
#include "driver/objects.h"
#include "driver/streams.h"

namespace emulator {

void Record::Reach() {
  const std::lock_guard<std::mutex> lock(mutex_);
  when_ = std::chrono::steady_clock::now();
  reached_ = true;
  changed_.notify_all();
}

void Record::Wait() {
  // A failure wakes nobody here, so waits look for one now and then.
  constexpr std::chrono::milliseconds kLookForFailure(20);
  std::unique_lock<std::mutex> lock(mutex_);
  while (!reached_ && !HasFailed(device_) && !HasFailed(WorkingDevice())) changed_.wait_for(lock, kLookForFailure);
}

namespace {

std::shared_ptr<Record> RecordOf(CUevent event) {
  const std::lock_guard<std::mutex> lock(event->mutex);
  return event->record;
}

}  // namespace

extern "C" {

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  const CUresult result = RequireContext(__func__);
  if (result != CUDA_SUCCESS) return result;
  constexpr unsigned kFlags = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING;
  if ((flags & CU_EVENT_INTERPROCESS) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if ((flags & ~kFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  *event = new CUevent_st;
  (*event)->flags = flags;
  (*event)->device = CurrentDevice();
  HandleCreated(HandleKind::kEvent, *event);
  return CUDA_SUCCESS;
}

// Work that waits for the event keeps the record.
CUresult cuEventDestroy(CUevent event) {
  if (!IsLive(HandleKind::kEvent, event, __func__)) return CUDA_ERROR_INVALID_HANDLE;
  HandleDestroyed(HandleKind::kEvent, event, __func__);
  delete event;
  return CUDA_SUCCESS;
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream handle, unsigned flags) {
  if (!IsLive(HandleKind::kEvent, event, __func__)) return CUDA_ERROR_INVALID_HANDLE;
  if ((flags & ~static_cast<unsigned>(CU_EVENT_RECORD_EXTERNAL)) != 0) return CUDA_ERROR_INVALID_VALUE;
  CUstream stream = nullptr;
  CUresult result = ResolveFor(__func__, handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (stream->device != event->device) return CUDA_ERROR_INVALID_HANDLE;
  AwaitRoom(stream);
  const Lock lock(Global());
  bool captured = false;
  result = CaptureRecord(stream, event, flags, &captured);
  if (result != CUDA_SUCCESS || captured) return result;
  auto record = std::make_shared<Record>(stream->device);
  {
    const std::lock_guard<std::mutex> event_lock(event->mutex);
    event->record = record;
  }
  return EnqueueNow(handle, CU_GRAPH_NODE_TYPE_EVENT_RECORD, [record] { record->Reach(); });
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_DEFAULT);
}

CUresult cuEventQuery(CUevent event) {
  if (!IsLive(HandleKind::kEvent, event, __func__)) return CUDA_ERROR_INVALID_HANDLE;
  {
    const Lock lock(Global());
    CUresult result = CheckNotCaptured(event, __func__);
    if (result == CUDA_SUCCESS) result = CheckSafe(__func__);
    if (result != CUDA_SUCCESS) return result;
  }
  if (HasFailed(event->device)) return kFailed;
  const auto record = RecordOf(event);
  return record == nullptr || record->reached() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent event) {
  if (!IsLive(HandleKind::kEvent, event, __func__)) return CUDA_ERROR_INVALID_HANDLE;
  {
    const Lock lock(Global());
    CUresult result = CheckNotCaptured(event, __func__);
    if (result == CUDA_SUCCESS) result = CheckSafe(__func__);
    if (result != CUDA_SUCCESS) return result;
  }
  const auto record = RecordOf(event);
  if (record != nullptr) record->Wait();
  return HasFailed(event->device) ? kFailed : CUDA_SUCCESS;
}

CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent from, CUevent to) {
  for (CUevent event : {from, to}) {
    if (!IsLive(HandleKind::kEvent, event, __func__)) return CUDA_ERROR_INVALID_HANDLE;
    if ((event->flags & CU_EVENT_DISABLE_TIMING) != 0) return CUDA_ERROR_INVALID_HANDLE;
    const Lock lock(Global());
    const CUresult result = CheckNotCaptured(event, __func__);
    if (result != CUDA_SUCCESS) return result;
  }
  const auto begin = RecordOf(from), end = RecordOf(to);
  if (begin == nullptr || end == nullptr || from->device != to->device) return CUDA_ERROR_INVALID_HANDLE;
  if (!begin->reached() || !end->reached()) {
    return HasFailed(from->device) ? kFailed : CUDA_ERROR_NOT_READY;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(end->when() - begin->when()).count();
  return CUDA_SUCCESS;
}

#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
  return cuEventElapsedTime_v2(milliseconds, from, to);
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags) {
  if (!IsLive(HandleKind::kEvent, event, __func__)) return CUDA_ERROR_INVALID_HANDLE;
  if ((flags & ~static_cast<unsigned>(CU_EVENT_WAIT_EXTERNAL)) != 0) return CUDA_ERROR_INVALID_VALUE;
  CUstream stream = nullptr;
  CUresult result = ResolveFor(__func__, handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  AwaitRoom(stream);
  const Lock lock(Global());
  bool captured = false;
  result = CaptureWait(stream, event, flags, &captured);
  if (result != CUDA_SUCCESS || captured) return result;
  auto record = RecordOf(event);
  if (record == nullptr) return CUDA_SUCCESS;
  return EnqueueNow(handle, CU_GRAPH_NODE_TYPE_WAIT_EVENT, [record] { record->Wait(); });
}

}  // extern "C"

}  // namespace emulator
