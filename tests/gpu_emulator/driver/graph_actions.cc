#include "driver/graph_actions.h"

#include <cuda.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "driver/contexts.h"
#include "driver/copies.h"
#include "driver/handles.h"
#include "driver/launches.h"
#include "driver/memory_operations.h"
#include "driver/objects.h"

namespace emulator {
namespace {

Place PlaceOf(CUmemorytype type, CUdeviceptr device, const void* host) {
  Place place;
  const auto address = type == CU_MEMORYTYPE_HOST ? reinterpret_cast<CUdeviceptr>(host) : device;
  place.memory_type = CU_MEMORYTYPE_HOST;
  place.device = -1;  // memory that the driver does not know
  unsigned found = 0;
  if (cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS) {
    place.memory_type = found;
    cuPointerGetAttribute(&place.device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
  }
  place.known = true;
  return place;
}

bool IsSamePlace(const Place& a, const Place& b) {
  return !a.known || !b.known || (a.memory_type == b.memory_type && a.device == b.device);
}

std::shared_ptr<Action> NewAction(CUgraphNodeType type) {
  auto action = std::make_shared<Action>();
  action->type = type;
  action->context = Current();
  return action;
}

CUdeviceptr Address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

// One side of a copy.
struct Side {
  char* base;
  size_t x_bytes, y, z, pitch, height;

  char* Row(size_t row, size_t slice) const { return base + ((z + slice) * height + y + row) * pitch + x_bytes; }
};

}  // namespace

ActionPointer PlainAction(CUgraphNodeType type, std::function<void()> run) {
  auto action = NewAction(type);
  action->run = std::move(run);
  return action;
}

ActionPointer KernelAction(const CUDA_KERNEL_NODE_PARAMS& p) {
  if (p.func == nullptr || (p.kernelParams != nullptr && p.extra != nullptr)) return nullptr;
  if (p.gridDimX == 0 || p.gridDimY == 0 || p.gridDimZ == 0 || p.blockDimX == 0 || p.blockDimY == 0 ||
      p.blockDimZ == 0) {
    return nullptr;
  }
  auto action = NewAction(CU_GRAPH_NODE_TYPE_KERNEL);
  action->run = KernelWork(p.func, {p.gridDimX, p.gridDimY, p.gridDimZ}, {p.blockDimX, p.blockDimY, p.blockDimZ},
                           p.sharedMemBytes, p.kernelParams, p.extra);
  return action;
}

ActionPointer CopyAction(const CUDA_MEMCPY3D& p) {
  if (p.srcMemoryType == CU_MEMORYTYPE_ARRAY || p.dstMemoryType == CU_MEMORYTYPE_ARRAY) return nullptr;
  const bool from_host = p.srcMemoryType == CU_MEMORYTYPE_HOST, to_host = p.dstMemoryType == CU_MEMORYTYPE_HOST;
  const Side from{from_host ? static_cast<char*>(const_cast<void*>(p.srcHost)) : reinterpret_cast<char*>(p.srcDevice),
                  p.srcXInBytes,
                  p.srcY,
                  p.srcZ,
                  p.srcPitch,
                  p.srcHeight};
  const Side to{to_host ? static_cast<char*>(p.dstHost) : reinterpret_cast<char*>(p.dstDevice),
                p.dstXInBytes,
                p.dstY,
                p.dstZ,
                p.dstPitch,
                p.dstHeight};
  if (from.base == nullptr || to.base == nullptr) return nullptr;
  const size_t bytes = p.WidthInBytes, rows = p.Height, slices = p.Depth;
  if (rows == 0 || slices == 0) return nullptr;
  auto action = NewAction(CU_GRAPH_NODE_TYPE_MEMCPY);
  action->one_dimensional = rows == 1 && slices == 1;
  if (!action->one_dimensional && (from.pitch < bytes || to.pitch < bytes)) return nullptr;
  action->source = PlaceOf(p.srcMemoryType, p.srcDevice, p.srcHost);
  action->destination = PlaceOf(p.dstMemoryType, p.dstDevice, p.dstHost);
  action->run = [=] {
    for (size_t slice = 0; slice < slices; ++slice) {
      for (size_t row = 0; row < rows; ++row) {
        CopyWork(Address(to.Row(row, slice)), Address(from.Row(row, slice)), bytes, "a copy of a graph")();
      }
    }
  };
  return action;
}

ActionPointer FillAction(const CUDA_MEMSET_NODE_PARAMS& p) {
  const bool known_size = p.elementSize == 1 || p.elementSize == 2 || p.elementSize == 4;
  if (!known_size || p.dst == 0 || p.dst % p.elementSize != 0 || p.width == 0 || p.height == 0) return nullptr;
  if (p.height > 1 && (p.pitch < p.width * p.elementSize || p.pitch % p.elementSize != 0)) return nullptr;
  auto action = NewAction(CU_GRAPH_NODE_TYPE_MEMSET);
  action->one_dimensional = p.height == 1;
  action->rows = p.height;
  action->destination = PlaceOf(CU_MEMORYTYPE_DEVICE, p.dst, nullptr);
  action->run = [p] {
    for (size_t row = 0; row < p.height; ++row) {
      FillWork(p.dst + row * p.pitch, p.value, p.elementSize, p.width, "a memset of a graph")();
    }
  };
  return action;
}

ActionPointer HostAction(const CUDA_HOST_NODE_PARAMS& p) {
  if (p.fn == nullptr) return nullptr;
  return PlainAction(CU_GRAPH_NODE_TYPE_HOST, [p] { p.fn(p.userData); });
}

ActionPointer MemoryOperationsAction(const CUDA_BATCH_MEM_OP_NODE_PARAMS& p) {
  if (p.flags != 0) return nullptr;
  auto run = MemoryOperationsWork(p.count, p.paramArray);
  if (run == nullptr) return nullptr;
  auto action = NewAction(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  action->operations = p.count;
  action->run = std::move(run);
  return action;
}

ActionPointer RecordAction(CUevent event) {
  if (event == nullptr) return nullptr;
  return PlainAction(CU_GRAPH_NODE_TYPE_EVENT_RECORD, [event] {
    if (!IsLive(HandleKind::kEvent, event, "an event record node")) Die("a graph uses an event that was destroyed");
    auto record = std::make_shared<Record>(event->device);
    record->Reach();
    const std::lock_guard<std::mutex> lock(event->mutex);
    event->record = std::move(record);
  });
}

ActionPointer WaitAction(CUevent event) {
  if (event == nullptr) return nullptr;
  return PlainAction(CU_GRAPH_NODE_TYPE_WAIT_EVENT, [event] {
    if (!IsLive(HandleKind::kEvent, event, "an event wait node")) Die("a graph uses an event that was destroyed");
    std::shared_ptr<Record> record;
    {
      const std::lock_guard<std::mutex> lock(event->mutex);
      record = event->record;
    }
    if (record != nullptr) record->Wait();
  });
}

CUresult CheckUpdate(const Action& from, const Action& to) {
  if (from.type != to.type) return CUDA_ERROR_INVALID_VALUE;
  switch (from.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return from.context == to.context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      if (!from.one_dimensional || !to.one_dimensional) return CUDA_ERROR_INVALID_VALUE;
      return IsSamePlace(from.source, to.source) && IsSamePlace(from.destination, to.destination)
                 ? CUDA_SUCCESS
                 : CUDA_ERROR_INVALID_VALUE;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return from.rows == to.rows && IsSamePlace(from.destination, to.destination) ? CUDA_SUCCESS
                                                                                   : CUDA_ERROR_INVALID_VALUE;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return from.operations == to.operations ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
      return CUDA_SUCCESS;
  }
}

}  // namespace emulator
