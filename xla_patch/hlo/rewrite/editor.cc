#include "xla_patch/hlo/rewrite/editor.h"

#include <map>
#include <unordered_map>
#include <utility>

#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/schedule.h"
#include "xla_patch/hlo/proto/wire.h"

namespace xla_shmem::hlo {
namespace {

constexpr int64_t kTypedFfi = 4;  // CustomCallApiVersion.API_VERSION_TYPED_FFI

// Fields that only the collective had, or that the call sets itself.
bool IsReplaced(uint32_t field, const CustomCall& call) {
  switch (field) {
    case InstructionField::kOpcode:
    case InstructionField::kFusionKind:
    case InstructionField::kDimensions:
    case InstructionField::kChannelId:
    case InstructionField::kCustomCallTarget:
    case InstructionField::kCalledComputationIds:
    case InstructionField::kBackendConfig:
    case InstructionField::kAllReduceId:
    case InstructionField::kReplicaGroups:
    case InstructionField::kSourceTargetPairs:
    case InstructionField::kConstrainLayout:
    case InstructionField::kOperandShapesWithLayout:
    case InstructionField::kCustomCallHasSideEffect:
    case InstructionField::kFrontendAttributes:
    case InstructionField::kUseGlobalDeviceIds:
    case InstructionField::kOutputOperandAliasing:
    case InstructionField::kCustomCallApiVersion:
    case InstructionField::kAsyncExecutionThread:
    case InstructionField::kCollectiveDeviceList:
    case InstructionField::kIotaCollectiveDeviceList:
    case InstructionField::kMeshAxesReplicaGroupList:
    case InstructionField::kBackendConfigPayload:
      return true;
    case InstructionField::kShape:
      return call.shape.has_value();
    case InstructionField::kId:
      return call.id.has_value();
    case InstructionField::kName:
      return call.name.has_value();
    case InstructionField::kOperandIds:
      return call.operands.has_value();
    default:
      return false;
  }
}

void CopyKeptFields(std::string_view body, const CustomCall& call, std::string* out) {
  FieldReader reader(body);
  for (Field field; reader.Next(&field);) {
    if (!IsReplaced(field.number, call)) out->append(field.whole);
  }
}

size_t BytesFieldSize(size_t content) { return 1 + VarintSize(content) + content; }

size_t SizeInComputation(const InstructionEdit& edit) {
  size_t size = edit.body.empty() ? 0 : BytesFieldSize(edit.body.size());
  for (const NewInstruction& before : edit.before) size += BytesFieldSize(before.body.size());
  for (const NewInstruction& after : edit.after) size += BytesFieldSize(after.body.size());
  return size;
}

// The module's bytes with a schedule that has the new instructions in their places and lacks the removed ones.
std::string Rescheduled(const Module& module, const std::vector<InstructionEdit>& edits, std::string bytes) {
  std::map<int64_t, ScheduleChange> changes;
  for (const InstructionEdit& edit : edits) {
    const int64_t id = module.instructions[edit.instruction].id;
    const int64_t computation = module.computations[edit.computation].id;
    for (const NewInstruction& before : edit.before) changes[computation].added[id].push_back(before.id);
    for (const NewInstruction& after : edit.after) changes[computation].added_behind[id].push_back(after.id);
    if (edit.body.empty()) changes[computation].removed.insert(id);
  }
  if (changes.empty() || module.schedule.empty()) return bytes;
  std::string out;
  out.reserve(bytes.size() + 64 * edits.size());
  FieldReader reader(bytes);
  for (Field field; reader.Next(&field);) {
    if (field.number == ModuleField::kSchedule) {
      WriteBytesField(ModuleField::kSchedule, ChangeSchedule(field.bytes, changes), &out);
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
    if (field.number != InstructionField::kFrontendAttributes) {
      out.append(field.whole);
    } else if (!is_written) {
      WriteBytesField(InstructionField::kFrontendAttributes, merged, &out);
      is_written = true;
    }
  }
  if (!is_written) WriteBytesField(InstructionField::kFrontendAttributes, merged, &out);
  return out;
}

std::string AsCustomCall(std::string_view body, const CustomCall& call, const Attributes& own) {
  const std::string merged = MergeAttributes(AttributeFields(body), own);
  std::string out;
  out.reserve(body.size() + call.backend_config.size() + merged.size() + 128);
  CopyKeptFields(body, call, &out);
  WriteBytesField(InstructionField::kOpcode, "custom-call", &out);
  if (call.shape.has_value()) WriteBytesField(InstructionField::kShape, *call.shape, &out);
  WriteBytesField(InstructionField::kCustomCallTarget, call.target, &out);
  if (call.name.has_value()) WriteBytesField(InstructionField::kName, *call.name, &out);
  if (call.id.has_value()) WriteIntField(InstructionField::kId, *call.id, &out);
  if (call.operands.has_value()) WritePackedInts(InstructionField::kOperandIds, *call.operands, &out);
  // A second packed chunk continues the list, so the first one keeps its bytes.
  WritePackedInts(InstructionField::kOperandIds, call.extra_operands, &out);
  WriteBytesField(InstructionField::kBackendConfig, call.backend_config, &out);
  WriteIntField(InstructionField::kCustomCallHasSideEffect, 1, &out);
  WriteBytesField(InstructionField::kFrontendAttributes, merged, &out);
  for (const Aliasing& aliasing : call.aliasing) {
    WriteBytesField(InstructionField::kOutputOperandAliasing, EncodeAliasing(aliasing), &out);
  }
  WriteIntField(InstructionField::kCustomCallApiVersion, kTypedFfi, &out);
  return out;
}

std::string AsBarrier(std::string_view body, const Attributes& own) {
  std::string out;
  CopyKeptFields(body, CustomCall(), &out);
  WriteBytesField(InstructionField::kOpcode, "opt-barrier", &out);
  WriteBytesField(InstructionField::kFrontendAttributes, MergeAttributes(AttributeFields(body), own), &out);
  return out;
}

std::string ApplyEdits(const Module& module, const std::vector<InstructionEdit>& edits,
                       const std::set<size_t>& removed) {
  size_t size = module.bytes.size();
  for (const InstructionEdit& edit : edits) size += SizeInComputation(edit) + 16;
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
    WriteTag(ModuleField::kComputations, WireType::kBytes, &out);
    WriteVarint(body_size, &out);
    copied = computation.body.data();
    for (; first < last; ++first) {
      const std::string_view old = module.instructions[edits[first].instruction].whole;
      copy_to(old.data());
      for (const NewInstruction& before : edits[first].before) {
        WriteBytesField(ComputationField::kInstructions, before.body, &out);
      }
      if (!edits[first].body.empty()) WriteBytesField(ComputationField::kInstructions, edits[first].body, &out);
      for (const NewInstruction& after : edits[first].after) {
        WriteBytesField(ComputationField::kInstructions, after.body, &out);
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
