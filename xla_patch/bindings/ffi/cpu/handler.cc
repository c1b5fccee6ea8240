#include "xla_patch/bindings/ffi/cpu/handler.h"

#include <string>

namespace xla_shmem {
namespace {

namespace ffi = ::xla::ffi;

Status Lacks(const char* attribute) {
  return Status::Error(std::string("a call has no ") + attribute + "; it was not written by this xla-shmem");
}

}  // namespace

Result<const PePairs*> PairsOf(const CallFrame& frame) {
  if (!frame.call.pairs.has_value()) return Lacks("pairs");
  return &*frame.call.pairs;
}

Result<const PeGroups*> GroupsOf(const CallFrame& frame) {
  if (!frame.call.groups.has_value()) return Lacks("groups");
  return &*frame.call.groups;
}

Result<std::vector<int>> OwnGroup(const CallFrame& frame) {
  const Result<const PeGroups*> groups = GroupsOf(frame);
  if (!groups.ok()) return groups.status();
  return GroupOf(**groups, frame.pe, frame.call.identity.name);
}

Result<ReductionKind> ReductionOf(const CallFrame& frame) {
  if (!frame.call.reduction.has_value()) return Lacks("reduction");
  return *frame.call.reduction;
}

size_t OperandBytes(const CallFrame& frame) {
  size_t bytes = 0;
  for (size_t i = 0; i < frame.operands.size(); ++i) bytes += frame.operands.get<ffi::AnyBuffer>(i)->size_bytes();
  return bytes;
}

}  // namespace xla_shmem
