#include "xla_patch/bindings/ffi/cpu/collectives.h"

#include <iterator>
#include <optional>
#include <utility>

#include "xla_patch/bindings/ffi/cpu/handler.h"
#include "xla_patch/bindings/ffi/ragged_operands.h"
#include "xla_patch/thunks/cpu/collectives.h"
#include "xla_patch/thunks/cpu/ragged_all_to_all.h"

namespace xla_shmem {
namespace {

namespace ffi = ::xla::ffi;

// Sets who takes part. A PE may be in no group of a broadcast, and in no pair of a permute.
Status ReadParticipants(const CallFrame& frame, CollectiveArguments* arguments) {
  if (UsesPairs(arguments->op)) {
    const Result<const PePairs*> pairs = PairsOf(frame);
    if (!pairs.ok()) return pairs.status();
    const Neighbours neighbours = FindNeighbours(**pairs, frame.pe);
    arguments->source = neighbours.source;
    arguments->target = neighbours.target;
    if (frame.shares_process) arguments->pairs = **pairs;
    return Status();
  }
  const Result<const PeGroups*> groups = GroupsOf(frame);
  if (!groups.ok()) return groups.status();
  const std::vector<int>* const group = FindGroup(**groups, frame.pe);
  if (group != nullptr) {
    arguments->group = *group;
  } else if (arguments->op != CollectiveOp::kCollectiveBroadcast) {
    return GroupOf(**groups, frame.pe, arguments->name).status();
  }
  return Status();
}

template <CollectiveOp kOp>
Status ReadCollective(const CallFrame& frame, CollectiveArguments* arguments) {
  arguments->op = kOp;
  XLA_SHMEM_RETURN_IF_ERROR(ReadParticipants(frame, arguments));
  const size_t members = arguments->group.size();
  // On either side of an all-to-all one array that is cut among the members, or one array for each of them.
  Result<Buffers> buffers = kOp == CollectiveOp::kAllToAll
                                ? ReadParts(frame.operands, frame.results, members)
                                : ReadBuffers(frame.operands, frame.results, OperandParts(kOp, members),
                                              ResultParts(kOp, members), IsReducing(kOp));
  if (!buffers.ok()) return buffers.status();
  if constexpr (IsReducing(kOp)) {
    const Result<ReductionKind> reduction = ReductionOf(frame);
    if (!reduction.ok()) return reduction.status();
    XLA_SHMEM_RETURN_IF_ERROR(CheckReducible(arguments->name, buffers->types, *reduction));
    arguments->reduction = *reduction;
    arguments->types = std::move(buffers->types);
  }
  arguments->operands = std::move(buffers->operands);
  arguments->results = std::move(buffers->results);
  arguments->bytes = std::move(buffers->bytes);
  return Status();
}

template <typename T>
std::vector<int64_t> Widened(const ffi::AnyBuffer& buffer) {
  const T* const values = static_cast<const T*>(buffer.untyped_data());
  return std::vector<int64_t>(values, values + buffer.element_count());
}

// XLA:CPU leaves the integers as the program has them.
std::optional<std::vector<int64_t>> Integers(const ffi::AnyBuffer& buffer) {
  switch (buffer.element_type()) {
    case ffi::DataType::S8:
      return Widened<int8_t>(buffer);
    case ffi::DataType::S16:
      return Widened<int16_t>(buffer);
    case ffi::DataType::S32:
      return Widened<int32_t>(buffer);
    case ffi::DataType::S64:
      return Widened<int64_t>(buffer);
    case ffi::DataType::U8:
      return Widened<uint8_t>(buffer);
    case ffi::DataType::U16:
      return Widened<uint16_t>(buffer);
    case ffi::DataType::U32:
      return Widened<uint32_t>(buffer);
    case ffi::DataType::U64:
      return Widened<uint64_t>(buffer);
    default:  // of XLA's types, which grow with its releases
      return std::nullopt;
  }
}

Status ReadRagged(const CallFrame& frame, RaggedAllToAllArguments* ragged) {
  Result<std::vector<int>> group = OwnGroup(frame);
  if (!group.ok()) return group.status();
  ragged->group = *std::move(group);
  const Result<RaggedOperands> operands =
      ReadRaggedOperands(ragged->name, frame.operands, frame.results, ragged->group.size());
  if (!operands.ok()) return operands.status();
  ragged->input = operands->input;
  ragged->output = operands->output;
  ragged->result = operands->result;
  ragged->row_bytes = operands->row_bytes;
  ragged->input_rows = static_cast<int64_t>(operands->input_rows);
  ragged->output_rows = static_cast<int64_t>(operands->output_rows);
  RaggedNumbers& numbers = ragged->numbers;
  std::vector<int64_t>* const arrays[] = {&numbers.input_offsets, &numbers.send_sizes, &numbers.output_offsets,
                                          &numbers.receive_sizes};
  for (size_t i = 0; i < std::size(arrays); ++i) {
    std::optional<std::vector<int64_t>> integers = Integers(operands->numbers[i]);
    if (!integers.has_value()) return Status::Error(ragged->name + ": its offsets and sizes are not integers");
    *arrays[i] = *std::move(integers);
  }
  return Status();
}

template <CollectiveOp kOp>
void AddHandler(std::vector<CpuHandler>* handlers) {
  if constexpr (kOp == CollectiveOp::kRaggedAllToAll) {
    handlers->push_back(MakeCpuHandler<kOp, RaggedAllToAllArguments, ReadRagged>());
  } else if constexpr (InfoOf(kOp).Has(op_trait::kOnCpu)) {
    handlers->push_back(MakeCpuHandler<kOp, CollectiveArguments, ReadCollective<kOp>>());
  }
}

template <size_t... kRows>
void AddHandlers(std::index_sequence<kRows...> /*of the table of ops*/, std::vector<CpuHandler>* handlers) {
  (AddHandler<kCollectiveOps[kRows].op>(handlers), ...);
}

ffi::Error Nothing(ffi::RemainingArgs /*operands*/, ffi::RemainingRets /*results*/) { return ffi::Error::Success(); }

}  // namespace

XLA_FFI_TypeId* LoadedCallTypeId() { return &LoadedCall::id; }

XLA_FFI_TypeInfo* LoadedCallTypeInfo() {
  static XLA_FFI_TypeInfo info = ffi::MakeTypeInfo<LoadedCall>();
  return &info;
}

std::vector<CpuHandler> CpuHandlers() {
  std::vector<CpuHandler> handlers = PartHandlers();
  AddHandlers(std::make_index_sequence<std::size(kCollectiveOps)>(), &handlers);
  const std::vector<CpuHandler> marks = MarkHandlers();
  handlers.insert(handlers.end(), marks.begin(), marks.end());
  return handlers;
}

XLA_FFI_Error* EmptyCall(XLA_FFI_CallFrame* frame) {
  static auto* const handler = ffi::Ffi::Bind().RemainingArgs().RemainingRets().To(Nothing).release();
  return handler->Call(frame);
}

}  // namespace xla_shmem
