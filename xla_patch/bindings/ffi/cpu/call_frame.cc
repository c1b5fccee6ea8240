#include "xla_patch/bindings/ffi/cpu/call_frame.h"

namespace xla_shmem {
namespace {

namespace ffi = ::xla::ffi;

bool Lacks(const char* what, std::string* error) {
  *error = std::string("a call has no ") + what + "; it was not written by this xla-shmem";
  return false;
}

}  // namespace

bool TakePairs(const CallFrame& frame, const PePairs** pairs, std::string* error) {
  if (!frame.call.pairs.has_value()) return Lacks("pairs", error);
  *pairs = &*frame.call.pairs;
  return true;
}

bool TakeGroups(const CallFrame& frame, const PeGroups** groups, std::string* error) {
  if (!frame.call.groups.has_value()) return Lacks("groups", error);
  *groups = &*frame.call.groups;
  return true;
}

bool TakeReduction(const CallFrame& frame, ReductionKind* reduction, std::string* error) {
  if (!frame.call.reduction.has_value()) return Lacks("reduction", error);
  *reduction = *frame.call.reduction;
  return true;
}

bool TakeGroup(const CallFrame& frame, std::vector<int>* group, std::string* error) {
  const PeGroups* groups = nullptr;
  if (!TakeGroups(frame, &groups, error)) return false;
  const std::vector<int>* found = FindGroup(*groups, frame.pe);
  if (found == nullptr) {
    *error = InNoGroup(frame.call.identity.name, frame.pe);
    return false;
  }
  *group = *found;
  return true;
}

size_t OperandBytes(const CallFrame& frame) {
  size_t bytes = 0;
  for (size_t i = 0; i < frame.operands.size(); ++i) {
    bytes += frame.operands.get<ffi::AnyBuffer>(i)->size_bytes();
  }
  return bytes;
}

}  // namespace xla_shmem
