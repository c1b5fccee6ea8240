// Handlers of the parts of divided collectives (hlo/rewrite/part_call.h).
#include "xla_patch/thunks/cpu/collective_parts.h"

#include <algorithm>
#include <string>

#include "xla_patch/bindings/ffi/cpu/handler.h"
#include "xla_patch/thunks/cpu/collectives.h"
#include "xla_patch/types/part_target.h"

namespace xla_shmem {
namespace {

namespace ffi = ::xla::ffi;

Status NotOurs(const CallFrame& frame, const char* fault) {
  return Status::Error(frame.call.identity.name + " has " + fault + "; it was not written by this xla-shmem");
}

// The group of this PE, and the positions of its PEs.
Status ReadPositions(const CallFrame& frame, PartArguments* arguments) {
  const Result<const PeGroups*> groups = GroupsOf(frame);
  if (!groups.ok()) return groups.status();
  size_t pes = 0, before = 0;
  for (const std::vector<int>& group : **groups) {
    if (std::find(group.begin(), group.end(), frame.pe) != group.end()) {
      arguments->group = group;
      before = pes;
    }
    pes += group.size();
  }
  if (arguments->group.empty()) return GroupOf(**groups, frame.pe, arguments->name).status();
  const std::vector<int64_t>& positions = frame.call.positions;
  if (!frame.call.part_bytes.has_value() || pes == 0 || positions.size() % pes != 0) {
    return NotOurs(frame, "no positions");
  }
  arguments->part_bytes = *frame.call.part_bytes;
  const auto parts = static_cast<std::ptrdiff_t>(positions.size() / pes);
  for (size_t member = 0; member < arguments->group.size(); ++member) {
    const auto first = positions.begin() + static_cast<std::ptrdiff_t>(before + member) * parts;
    arguments->positions.emplace_back(first, first + parts);
  }
  return Status();
}

Status ReadArrays(const CallFrame& frame, PartArguments* arguments, ElementType* type) {
  for (size_t i = 0; i < frame.operands.size(); ++i) {
    const ffi::ErrorOr<ffi::AnyBuffer> operand = frame.operands.get<ffi::AnyBuffer>(i);
    if (operand.has_error()) return NotOurs(frame, "an operand that is no array");
    arguments->operands.memory.push_back(static_cast<const char*>((*operand).untyped_data()));
    arguments->operands.bytes.push_back((*operand).size_bytes());
    *type = static_cast<ElementType>((*operand).element_type());
  }
  for (size_t i = 0; i < frame.results.size(); ++i) {
    ffi::ErrorOr<ffi::Result<ffi::AnyBuffer>> result = frame.results.get<ffi::AnyBuffer>(i);
    if (result.has_error()) return NotOurs(frame, "a result that is no array");
    arguments->results.memory.push_back(static_cast<char*>((**result).untyped_data()));
    arguments->results.bytes.push_back((**result).size_bytes());
  }
  if (arguments->operands.memory.empty() || arguments->results.memory.empty()) return NotOurs(frame, "no arrays");
  return Status();
}

template <typename Arguments>
Status ReadMoved(const CallFrame& frame, Arguments* arguments) {
  ElementType type;
  XLA_SHMEM_RETURN_IF_ERROR(ReadPositions(frame, arguments));
  return ReadArrays(frame, arguments, &type);
}

template <typename Arguments>
Status ReadReduced(const CallFrame& frame, Arguments* arguments) {
  XLA_SHMEM_RETURN_IF_ERROR(ReadPositions(frame, arguments));
  XLA_SHMEM_RETURN_IF_ERROR(ReadArrays(frame, arguments, &arguments->type));
  const Result<ReductionKind> reduction = ReductionOf(frame);
  if (!reduction.ok()) return reduction.status();
  arguments->reduction = *reduction;
  return CheckReducible(arguments->name, {arguments->type}, *reduction);
}

Status ReadReduceParts(const CallFrame& frame, ReducePartsArguments* arguments) {
  XLA_SHMEM_RETURN_IF_ERROR(ReadReduced(frame, arguments));
  const size_t bytes = arguments->results.bytes[0];
  const auto& operands = arguments->operands.bytes;
  const auto is_of_parts = [&](size_t whole) { return bytes > 0 && whole % bytes == 0; };
  const bool fits = std::all_of(operands.begin(), operands.end(), is_of_parts);
  return fits ? Status() : NotOurs(frame, "operands that are not parts as large as the result");
}

// The arrays of a permute or broadcast: the operand, what came from other domains, the result.
Result<PartArguments> ReadEqualArrays(const CallFrame& frame) {
  PartArguments arrays;
  ElementType type;
  XLA_SHMEM_RETURN_IF_ERROR(ReadArrays(frame, &arrays, &type));
  for (const size_t bytes : arrays.operands.bytes) {
    if (bytes != arrays.results.bytes[0]) return NotOurs(frame, "operands and a result of several sizes");
  }
  return arrays;
}

Status ReadPermute(const CallFrame& frame, PermutePartsArguments* permute) {
  const Result<const PePairs*> pairs = PairsOf(frame);
  if (!pairs.ok()) return pairs.status();
  const Result<PartArguments> arrays = ReadEqualArrays(frame);
  if (!arrays.ok()) return arrays.status();
  if (arrays->operands.memory.size() != 2) return NotOurs(frame, "other than two operands");
  const Neighbours neighbours = FindNeighbours(**pairs, frame.pe);
  permute->source = neighbours.source;
  permute->target = neighbours.target;
  permute->operand = arrays->operands.memory[0];
  const std::vector<int64_t>& received_by = frame.call.received_by;
  if (std::find(received_by.begin(), received_by.end(), frame.pe) != received_by.end()) {
    permute->received = arrays->operands.memory[1];
  }
  permute->result = arrays->results.memory[0];
  permute->bytes = arrays->results.bytes[0];
  return Status();
}

Status ReadBroadcast(const CallFrame& frame, CollectiveArguments* broadcast) {
  const Result<const PeGroups*> groups = GroupsOf(frame);
  if (!groups.ok()) return groups.status();
  const Result<PartArguments> arrays = ReadEqualArrays(frame);
  if (!arrays.ok()) return arrays.status();
  broadcast->op = CollectiveOp::kCollectiveBroadcast;
  size_t operand = 0;
  if (const std::vector<int>* group = FindGroup(**groups, frame.pe); group != nullptr) {
    broadcast->group = *group;
    const auto number = static_cast<size_t>(group - (*groups)->data());
    if (number < frame.call.sources.size()) operand = static_cast<size_t>(frame.call.sources[number]);
  }
  if (operand >= arrays->operands.memory.size()) return NotOurs(frame, "too few operands");
  broadcast->operands = {arrays->operands.memory[operand]};
  broadcast->results = {arrays->results.memory[0]};
  broadcast->bytes = {arrays->results.bytes[0]};
  return Status();
}

template <CollectiveOp kOp, typename Arguments, Status (*Read)(const CallFrame&, Arguments*)>
CpuHandler Handler(PartTarget target) noexcept {
  return MakeCpuHandler<kOp, Arguments, Read>(PartTargetName(target));
}

}  // namespace

std::vector<CpuHandler> PartHandlers() {
  return {
      Handler<CollectiveOp::kReduceScatter, ReduceScatterPartsArguments, ReadReduced>(PartTarget::kReduceScatter),
      Handler<CollectiveOp::kAllGather, AllGatherPartsArguments, ReadMoved>(PartTarget::kAllGather),
      Handler<CollectiveOp::kAllToAll, AllToAllPartsArguments, ReadMoved>(PartTarget::kAllToAll),
      Handler<CollectiveOp::kReduceScatter, ReducePartsArguments, ReadReduceParts>(PartTarget::kReduce),
      Handler<CollectiveOp::kCollectivePermute, PermutePartsArguments, ReadPermute>(PartTarget::kPermute),
      Handler<CollectiveOp::kCollectiveBroadcast, CollectiveArguments, ReadBroadcast>(PartTarget::kBroadcast),
  };
}

}  // namespace xla_shmem
