#include "xla/backends/gpu/transforms/collectives/shmem/hlo_collective.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "xla/hlo/ir/hlo_casting_utils.h"
#include "xla/hlo/ir/hlo_computation.h"
#include "xla/hlo/ir/hlo_instructions.h"
#include "xla/hlo/ir/hlo_opcode.h"
#include "xla/hlo/ir/replica_group.h"
#include "xla/layout.h"
#include "xla/service/computation_placer.h"
#include "xla/service/hlo_module_config.h"
#include "xla/shape.h"
#include "xla/shape_util.h"
#include "xla_patch/assigner/participants.h"
#include "xla_patch/assigner/reduction_matcher.h"
#include "xla_patch/assigner/vetoes.h"
#include "xla_patch/types/collective_op.h"
#include "xla_patch/types/element_type.h"
#include "xla_patch/types/reduction_kind.h"
#include "xla_patch/types/status.h"

namespace xla::gpu {
namespace {

using ::xla_shmem::CollectiveOp;

std::optional<CollectiveOp> KindOf(HloOpcode opcode) {
  switch (opcode) {
    case HloOpcode::kAllReduce:
    case HloOpcode::kAllReduceStart:
      return CollectiveOp::kAllReduce;
    case HloOpcode::kCollectivePermute:
    case HloOpcode::kCollectivePermuteStart:
      return CollectiveOp::kCollectivePermute;
    case HloOpcode::kAllGather:
    case HloOpcode::kAllGatherStart:
      return CollectiveOp::kAllGather;
    case HloOpcode::kReduceScatter:
      return CollectiveOp::kReduceScatter;
    case HloOpcode::kAllToAll:
      return CollectiveOp::kAllToAll;
    case HloOpcode::kCollectiveBroadcast:
      return CollectiveOp::kCollectiveBroadcast;
    case HloOpcode::kRaggedAllToAll:
      return CollectiveOp::kRaggedAllToAll;
    default:
      return std::nullopt;
  }
}

std::optional<HloOpcode> DoneOpcode(HloOpcode start) {
  switch (start) {
    case HloOpcode::kAllReduceStart:
      return HloOpcode::kAllReduceDone;
    case HloOpcode::kCollectivePermuteStart:
      return HloOpcode::kCollectivePermuteDone;
    case HloOpcode::kAllGatherStart:
      return HloOpcode::kAllGatherDone;
    case HloOpcode::kAsyncStart:
      return HloOpcode::kAsyncDone;
    default:
      return std::nullopt;
  }
}

HloInstruction* FindDone(const HloInstruction& issued) {
  const std::optional<HloOpcode> done = DoneOpcode(issued.opcode());
  return done.has_value() && issued.user_count() == 1 && issued.users()[0]->opcode() == *done ? issued.users()[0]
                                                                                              : nullptr;
}

// The shape of a start also holds operands and context.
const Shape& ResultShape(const HloCollective& collective) {
  const HloInstruction& op = *collective.op;
  const bool holds_operands =
      op.opcode() == HloOpcode::kCollectivePermuteStart || op.opcode() == HloOpcode::kAllGatherStart;
  return holds_operands && op.shape().IsTuple() && op.shape().tuple_shapes().size() >= 2 ? op.shape().tuple_shapes(1)
                                                                                         : op.shape();
}

// Collectives have flat results.
std::vector<const Shape*> Leaves(const Shape& shape) {
  if (!shape.IsTuple()) return {&shape};
  std::vector<const Shape*> leaves;
  for (const Shape& element : shape.tuple_shapes()) leaves.push_back(&element);
  return leaves;
}

// device_list() returned a reference until 2026-03 and a shared pointer since.
[[maybe_unused]] const CollectiveDeviceListBase& Referent(const CollectiveDeviceListBase& list) { return list; }
[[maybe_unused]] const CollectiveDeviceListBase& Referent(const std::shared_ptr<CollectiveDeviceListBase>& list) {
  return *list;
}

// XLA gives all forms of groups (lists, iota, mesh axes) the same interface.
xla_shmem::IdGroups ReadGroups(const HloInstruction& op) {
  xla_shmem::IdGroups groups;
  for (const std::vector<int64_t>& group : Referent(op.device_list()).flattened_replica_groups()) {
    groups.ids.insert(groups.ids.end(), group.begin(), group.end());
    groups.offsets.push_back(static_cast<int64_t>(groups.ids.size()));
  }
  return groups;
}

bool UsesGlobalDeviceIds(const HloInstruction& op) {
  if (const auto* all_reduce = DynCast<HloAllReduceInstructionBase>(&op)) return all_reduce->use_global_device_ids();
  const auto* all_gather = DynCast<HloAllGatherInstruction>(&op);
  return all_gather != nullptr && all_gather->use_global_device_ids();
}

xla_shmem::Status ReadParticipants(const HloInstruction& op, const xla_shmem::DeviceAssignment& assignment,
                                   xla_shmem::CollectiveSpec* spec) {
  const bool has_channel_id = op.channel_id().value_or(0) > 0;
  if (xla_shmem::UsesPairs(spec->op)) {
    auto pairs = xla_shmem::ResolvePairs(op.source_target_pairs(), has_channel_id, assignment);
    if (!pairs.ok()) return pairs.status();
    spec->pairs = *std::move(pairs);
    return xla_shmem::Status();
  }
  const xla_shmem::Result<xla_shmem::GroupMode> mode =
      xla_shmem::GetGroupMode(has_channel_id, xla_shmem::CanBeGlobal(spec->op), UsesGlobalDeviceIds(op));
  if (!mode.ok()) return mode.status();
  xla_shmem::Result<xla_shmem::DeviceGroups> groups = xla_shmem::ExpandGroups(ReadGroups(op), *mode, assignment);
  if (!groups.ok()) return groups.status();
  spec->groups = *std::move(groups);
  return xla_shmem::Status();
}

std::optional<xla_shmem::ReductionKind> ReadReduction(const HloInstruction& op) {
  if (op.called_computations().size() != 1) return std::nullopt;
  const HloComputation& computation = *op.called_computations()[0];
  if (computation.instruction_count() > static_cast<int64_t>(xla_shmem::kMaxReductionNodes)) return std::nullopt;
  const std::vector<HloInstruction*> order = computation.MakeInstructionPostOrder();
  const auto position = [&](const HloInstruction* instruction) {
    return static_cast<size_t>(std::find(order.begin(), order.end(), instruction) - order.begin());
  };
  std::vector<xla_shmem::ReductionNode> nodes;
  for (const HloInstruction* instruction : order) {
    xla_shmem::ReductionNode& node = nodes.emplace_back();
    node.opcode = std::string(HloOpcodeString(instruction->opcode()));
    node.parameter_number = instruction->opcode() == HloOpcode::kParameter ? instruction->parameter_number() : 0;
    node.element_type = static_cast<xla_shmem::ElementType>(instruction->shape().element_type());
    node.is_scalar = ShapeUtil::IsScalar(instruction->shape());
    for (const HloInstruction* operand : instruction->operands()) node.operands.push_back(position(operand));
  }
  return xla_shmem::MatchReduction(nodes, position(computation.root_instruction()));
}

// Only the order of its dimensions: no tiling, packing, padding or metadata.
bool IsPlain(const Layout& layout) {
  return layout.tiles().empty() && layout.element_size_in_bits() == 0 && !layout.has_physical_shape() &&
         layout.dynamic_shape_metadata_prefix_bytes() == 0 && layout.split_configs().empty() &&
         layout.tail_padding_alignment_in_elements() <= 1;
}

bool SameBytesLayout(const Shape& a, const Shape& b) {
  if (!a.IsArray() || !b.IsArray() || !ShapeUtil::Compatible(a, b) || a.has_layout() != b.has_layout()) return false;
  return !a.has_layout() ||
         (a.layout().minor_to_major() == b.layout().minor_to_major() && IsPlain(a.layout()) && IsPlain(b.layout()));
}

bool IsOnHost(const Shape& shape) {
  return shape.has_layout() && shape.layout().memory_space() == Layout::kHostMemorySpace;
}

xla_shmem::Unsupported FindUnsupportedForm(const HloCollective& collective, const std::vector<const Shape*>& results) {
  if (collective.is_in_group) return xla_shmem::kSharesAsyncComputation;
  const auto* permute = DynCast<HloCollectivePermuteInstruction>(collective.op);
  if (permute != nullptr && !permute->dynamic_slice_sizes_list().empty()) return xla_shmem::kPermutesSlices;
  const HloInstruction::InstructionVector& operands = collective.issued->operands();
  std::vector<xla_shmem::TransferredBuffer> buffers;
  for (size_t i = 0; i < std::min(results.size(), operands.size()); ++i) {
    const Shape& operand = operands[i]->shape();
    buffers.push_back({results[i]->is_dynamic() || operand.is_dynamic(), IsOnHost(*results[i]) || IsOnHost(operand),
                       SameBytesLayout(*results[i], operand)});
  }
  return xla_shmem::UnsupportedBuffers(collective.spec, operands.size(), results.size(), buffers);
}

}  // namespace

absl::StatusOr<xla_shmem::DeviceAssignment> ReadDeviceAssignment(const HloModule& module,
                                                                 const xla_shmem::Topology& topology) {
  if (!module.config().has_static_device_assignment()) {
    return xla_shmem::DeviceAssignment::Logical(topology.device_ids());
  }
  const DeviceAssignment& placed = module.config().static_device_assignment();
  std::vector<std::vector<int64_t>> by_partition(placed.computation_count());
  for (int64_t partition = 0; partition < placed.computation_count(); ++partition) {
    for (int64_t replica = 0; replica < placed.replica_count(); ++replica) {
      by_partition[partition].push_back(placed(replica, partition));
    }
  }
  xla_shmem::Result<xla_shmem::DeviceAssignment> assignment =
      xla_shmem::DeviceAssignment::Create(placed.replica_count(), placed.computation_count(), by_partition);
  if (!assignment.ok()) return absl::InvalidArgumentError(assignment.message());
  return *std::move(assignment);
}

std::optional<HloCollective> ReadCollective(HloInstruction* instruction,
                                            const xla_shmem::DeviceAssignment& assignment) {
  const std::optional<CollectiveOp> kind = KindOf(instruction->opcode());
  if (!kind.has_value()) return std::nullopt;
  HloCollective collective;
  collective.op = instruction;
  const std::optional<HloInstruction*> start = instruction->parent()->GetUniqueCaller(HloOpcode::kAsyncStart);
  collective.is_in_group = start.has_value() && !instruction->parent()->CanExpandIntoSingleInstruction();
  collective.issued = collective.is_in_group ? instruction : start.value_or(instruction);
  collective.done = FindDone(*collective.issued);
  xla_shmem::CollectiveSpec& spec = collective.spec;
  spec.op = *kind;
  spec.name = std::string(collective.issued->name());
  const std::vector<const Shape*> results = Leaves(ResultShape(collective));
  for (const Shape* result : results) {
    spec.element_types.push_back(static_cast<xla_shmem::ElementType>(result->element_type()));
    spec.bytes += result->IsArray() ? ShapeUtil::ByteSizeOfElements(*result) : 0;
  }
  if (const xla_shmem::Status read = ReadParticipants(*instruction, assignment, &spec); !read.ok()) {
    spec.unsupported_participants = read.message();
  }
  spec.reduction = ReadReduction(*instruction);
  collective.unsupported_form = FindUnsupportedForm(collective, results);
  return collective;
}

}  // namespace xla::gpu
