#include "xla_patch/bindings/ffi/gpu/profiler_range.h"

#ifdef XLA_SHMEM_HAS_NVTX
#include <nvtx3/nvToolsExt.h>

#include <string>
#include <vector>

namespace xla_shmem {
namespace {

// Null without a profiler.
nvtxDomainHandle_t Domain() {
  static const nvtxDomainHandle_t domain = nvtxDomainCreateA("xla-shmem");
  return domain;
}

std::string Peers(const GpuCallFrame& frame) {
  const int pe = frame.gpu->job_pe();
  if (const Result<PePairs> pairs = ReadPairs(frame.attributes); pairs.ok()) {
    const Neighbours neighbours = FindNeighbours(*pairs, pe);
    std::string text;
    if (neighbours.source >= 0) text += " from PE " + std::to_string(neighbours.source);
    if (neighbours.target >= 0) text += " to PE " + std::to_string(neighbours.target);
    return text;
  }
  const Result<PeGroups> groups = ReadGroups(frame.attributes);
  const std::vector<int>* group = groups.ok() ? FindGroup(*groups, pe) : nullptr;
  std::string text;
  if (group == nullptr) return text;
  for (const int member : *group) text += (text.empty() ? " among PE " : ", ") + std::to_string(member);
  return text;
}

}  // namespace

ProfilerRange::ProfilerRange(const GpuCallFrame& frame, CollectiveOp op) {
  if (Domain() == nullptr) return;
  const std::string message = std::string(OpName(op)) + " " + frame.call.name + Peers(frame);
  nvtxEventAttributes_t event = {};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  event.payload.ullValue = OperandBytes(frame);
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = message.c_str();
  nvtxDomainRangePushEx(Domain(), &event);
  is_open_ = true;
}

ProfilerRange::~ProfilerRange() {
  if (is_open_) nvtxDomainRangePop(Domain());
}

}  // namespace xla_shmem

#else

namespace xla_shmem {

ProfilerRange::ProfilerRange(const GpuCallFrame& /*frame*/, CollectiveOp /*op*/) {}
ProfilerRange::~ProfilerRange() = default;

}  // namespace xla_shmem

#endif
