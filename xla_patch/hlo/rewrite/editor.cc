#include "xla_patch/hlo/rewrite/editor.h"

#include <map>
#include <unordered_map>
#include <utility>

#include "xla_patch/hlo/proto/schedule.h"
#include "xla_patch/hlo/proto/wire.h"

namespace xla_shmem::hlo {
namespace {

// HloInstructionProto field numbers (xla/service/hlo.proto).
enum InstructionField : uint32_t {
  kOpcode = 2,
  kShape = 3,
  kDimensions = 14,
  kChannelId = 26,
  kCustomCallTarget = 28,
  kId = 35,
  kOperandIds = 36,
  kCalledComputationIds = 38,
  kBackendConfig = 43,
  kAllReduceId = 45,
  kReplicaGroups = 49,
  kSourceTargetPairs = 52,
  kConstrainLayout = 56,
  kOperandShapesWithLayout = 57,
  kHasSideEffect = 65,
  kFrontendAttributes = 68,
  kUseGlobalDeviceIds = 71,
  kOutputOperandAliasing = 74,
  kApiVersion = 77,
  kAsyncExecutionThread = 79,
  kCollectiveDeviceList = 87,
  kIotaDeviceList = 92,
  kMeshAxesDeviceList = 93,
  kBackendConfigPayload = 99,
};

constexpr uint32_t kModuleSchedule = 7;  // HloModuleProto.schedule

constexpr int64_t kTypedFfi = 4;  // CustomCallApiVersion.API_VERSION_TYPED_FFI

// What only the collective had, or its successor brings along.
bool IsReplaced(uint32_t field, const CustomCall& call) {
  switch (field) {
    case kOpcode:
    case kDimensions:
    case kChannelId:
    case kCustomCallTarget:
    case kCalledComputationIds:
    case kBackendConfig:
    case kAllReduceId:
    case kReplicaGroups:
    case kSourceTargetPairs:
    case kConstrainLayout:
    case kOperandShapesWithLayout:
    case kHasSideEffect:
    case kFrontendAttributes:
    case kUseGlobalDeviceIds:
    case kOutputOperandAliasing:
    case kApiVersion:
    case kAsyncExecutionThread:
    case kCollectiveDeviceList:
    case kIotaDeviceList:
    case kMeshAxesDeviceList:
    case kBackendConfigPayload:
      return true;
    case kShape:
      return call.shape.has_value();
    case kId:
      return call.id.has_value();
    case kOperandIds:
      return call.operands.has_value();
    default:
      return false;
  }
}

void CopyKeptFields(std::string_view body, const CustomCall& call, std::string* out) {
  FieldReader reader(body);
  for (Field field; reader.Next(&field);) {
    if (!IsReplaced(field.number, call)) {
      out->append(field.whole);
    }
  }
}

size_t BytesFieldSize(size_t content) { return 1 + VarintSize(content) + content; }

size_t SizeInComputation(const InstructionEdit& edit) {
  return (edit.body.empty() ? 0 : BytesFieldSize(edit.body.size())) +
         (edit.before.has_value() ? BytesFieldSize(edit.before->body.size()) : 0);
}

// The module's bytes with a schedule in which the new instructions run right before those they stand before, and what
// is gone does not run.
std::string Rescheduled(const Module& module, const std::vector<InstructionEdit>& edits, std::string bytes) {
  std::map<int64_t, ScheduleChange> changes;
  for (const InstructionEdit& edit : edits) {
    const int64_t id = module.instructions[edit.instruction].id;
    if (edit.before.has_value()) {
      changes[module.computations[edit.computation].id].added[id] = edit.before->id;
    }
    if (edit.body.empty()) {
      changes[module.computations[edit.computation].id].removed.insert(id);
    }
  }
  if (changes.empty() || module.schedule.empty()) {
    return bytes;
  }
  std::string out;
  out.reserve(bytes.size() + 64 * edits.size());
  FieldReader reader(bytes);
  for (Field field; reader.Next(&field);) {
    if (field.number == kModuleSchedule) {
      WriteBytesField(kModuleSchedule, ChangeSchedule(field.bytes, changes), &out);
    } else {
      out.append(field.whole);
    }
  }
  return out;
}

}  // namespace

std::string WithAttributes(std::string_view body, const Attributes& own) {
  const std::string merged = MergeAttributes(AttributeFields(body), own);
  std::string out;
  out.reserve(body.size() + merged.size() + 16);
  bool is_written = false;
  FieldReader reader(body);
  for (Field field; reader.Next(&field);) {
    if (field.number != kFrontendAttributes) {
      out.append(field.whole);
    } else if (!is_written) {
      WriteBytesField(kFrontendAttributes, merged, &out);
      is_written = true;
    }
  }
  if (!is_written) {
    WriteBytesField(kFrontendAttributes, merged, &out);
  }
  return out;
}

std::string AsCustomCall(std::string_view body, const CustomCall& call, const Attributes& own) {
  const std::string merged = MergeAttributes(AttributeFields(body), own);
  std::string out;
  out.reserve(body.size() + call.backend_config.size() + merged.size() + 128);
  CopyKeptFields(body, call, &out);
  WriteBytesField(kOpcode, "custom-call", &out);
  if (call.shape.has_value()) {
    WriteBytesField(kShape, *call.shape, &out);
  }
  WriteBytesField(kCustomCallTarget, call.target, &out);
  if (call.id.has_value()) {
    WriteIntField(kId, *call.id, &out);
  }
  if (call.operands.has_value()) {
    WritePackedInts(kOperandIds, *call.operands, &out);
  }
  // A second packed chunk continues the list, so the first one keeps its bytes.
  WritePackedInts(kOperandIds, call.extra_operands, &out);
  WriteBytesField(kBackendConfig, call.backend_config, &out);
  WriteIntField(kHasSideEffect, 1, &out);
  WriteBytesField(kFrontendAttributes, merged, &out);
  for (const Aliasing& aliasing : call.aliasing) {
    WriteBytesField(kOutputOperandAliasing, EncodeAliasing(aliasing), &out);
  }
  WriteIntField(kApiVersion, kTypedFfi, &out);
  return out;
}

std::string AsBarrier(std::string_view body, const Attributes& own) {
  std::string out;
  CopyKeptFields(body, CustomCall(), &out);
  WriteBytesField(kOpcode, "opt-barrier", &out);
  WriteBytesField(kFrontendAttributes, MergeAttributes(AttributeFields(body), own), &out);
  return out;
}

std::string ApplyEdits(const Module& module, const std::vector<InstructionEdit>& edits,
                       const std::set<size_t>& removed) {
  size_t size = module.bytes.size();
  for (const InstructionEdit& edit : edits) {
    size += SizeInComputation(edit) + 16;
  }
  std::string out;
  out.reserve(size);
  const char* copied = module.bytes.data();  // input up to here is in `out`
  const auto copy_to = [&](const char* end) {
    out.append(copied, end - copied);
    copied = end;
  };
  auto next_removed = removed.begin();
  const auto skip_removed = [&](size_t end) {
    for (; next_removed != removed.end() && *next_removed < end; ++next_removed) {
      const std::string_view whole = module.computations[*next_removed].whole;
      copy_to(whole.data());
      copied = whole.data() + whole.size();
    }
  };
  for (size_t first = 0; first < edits.size();) {
    skip_removed(edits[first].computation);
    const Computation& computation = module.computations[edits[first].computation];
    size_t last = first;
    size_t body_size = computation.body.size();
    for (; last < edits.size() && edits[last].computation == edits[first].computation; ++last) {
      body_size -= module.instructions[edits[last].instruction].whole.size();
      body_size += SizeInComputation(edits[last]);
    }
    copy_to(computation.whole.data());
    WriteVarint(3 << 3 | 2, &out);  // HloModuleProto.computations
    WriteVarint(body_size, &out);
    copied = computation.body.data();
    for (; first < last; ++first) {
      const std::string_view old = module.instructions[edits[first].instruction].whole;
      copy_to(old.data());
      if (const auto& before = edits[first].before; before.has_value()) {
        WriteBytesField(2, before->body, &out);
      }
      if (!edits[first].body.empty()) {
        WriteBytesField(2, edits[first].body, &out);  // HloComputationProto.instructions
      }
      copied = old.data() + old.size();
    }
    copy_to(computation.body.data() + computation.body.size());
  }
  skip_removed(module.computations.size());
  copy_to(module.bytes.data() + module.bytes.size());
  return Rescheduled(module, edits, std::move(out));
}

}  // namespace xla_shmem::hlo
