// Handlers of the parts within an NVLink domain of divided collectives
// (hlo/rewrite/hierarchical_collective_on_gpu.h). Attributes beside those of the op:
//
// pieces (reduce-scatter, all-gather, all-to-all): an array is so many arrays of equal size, one behind the other. If
// it is one, the members' parts need not fill it: each member has the rest, less than one element for each of them,
// behind its part.
//
// received_by (permute): PEs whose results have arrived. Such a result shares the buffer of an operand; these operands
// stand behind those that are moved.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "xla_patch/bindings/ffi/gpu/handler.h"
#include "xla_patch/types/part_target.h"

namespace xla_shmem {
namespace {

namespace ffi = ::xla::ffi;

struct PartsArguments {
  gpu::GroupArguments parts;
  gpu::GroupArguments rest;  // all devices have the same; without buffers if nothing is left over
  uint32_t tag = 0;
  std::shared_ptr<gpu::Follower> follower = nullptr;
};

Status NotOurs(const GpuCallFrame& frame, const std::string& fault) {
  return Status::Error(frame.call.name + ": " + fault + "; it was not written by this xla-shmem");
}

// One operand and its result.
struct Pair {
  char* operand;
  char* result;
  size_t operand_bytes;
  size_t result_bytes;
  ElementType type;
};

Result<std::vector<Pair>> ReadArrays(const GpuCallFrame& frame, size_t results) {
  std::vector<Pair> pairs;
  for (size_t i = 0; i < results; ++i) {
    ffi::ErrorOr<ffi::AnyBuffer> operand = frame.operands.get<ffi::AnyBuffer>(i);
    ffi::ErrorOr<ffi::Result<ffi::AnyBuffer>> result = frame.results.get<ffi::AnyBuffer>(i);
    if (operand.has_error() || result.has_error()) return NotOurs(frame, "it has too few arrays");
    pairs.push_back({static_cast<char*>((*operand).untyped_data()), static_cast<char*>((**result).untyped_data()),
                     (*operand).size_bytes(), (**result).size_bytes(),
                     static_cast<ElementType>((*operand).element_type())});
  }
  return pairs;
}

void Add(const Pair& pair, size_t operand_offset, size_t result_offset, size_t bytes, gpu::GroupArguments* group) {
  group->buffers.operands.push_back(pair.operand + operand_offset);
  group->buffers.results.push_back(pair.result + result_offset);
  group->buffers.bytes.push_back(bytes);
  if (IsReducing(group->op)) group->types.push_back(pair.type);
}

// Adds the parts of an array that has `pieces` times a part of each member.
template <CollectiveOp kOp>
Status AddParts(const GpuCallFrame& frame, const Pair& pair, size_t pieces, PartsArguments* arguments) {
  const size_t members = arguments->parts.group.size();
  const size_t whole = kOp == CollectiveOp::kReduceScatter ? pair.operand_bytes : pair.result_bytes;
  const size_t other = kOp == CollectiveOp::kReduceScatter ? pair.result_bytes : pair.operand_bytes;
  const size_t element = ElementBytes(pair.type);
  const size_t part = whole / (element * pieces * members) * element;
  const size_t rest = whole - part * pieces * members;
  const size_t expected = kOp == CollectiveOp::kAllToAll ? whole : part * pieces + rest;
  if (other != expected || (rest != 0 && (pieces != 1 || kOp == CollectiveOp::kAllToAll))) {
    return NotOurs(frame, "operand and result do not match");
  }
  const size_t operand_step = kOp == CollectiveOp::kAllGather ? part : part * members;
  const size_t result_step = kOp == CollectiveOp::kReduceScatter ? part : part * members;
  for (size_t piece = 0; piece < pieces; ++piece) {
    Add(pair, piece * operand_step, piece * result_step, part, &arguments->parts);
  }
  if (rest != 0) Add(pair, operand_step, result_step, rest, &arguments->rest);
  return Status();
}

template <CollectiveOp kOp>
Result<PartsArguments> ReadMovedOrReduced(const GpuCallFrame& frame) {
  PartsArguments arguments;
  const Result<int64_t> pieces = ReadInt(frame.attributes, "pieces");
  if (!pieces.ok()) return pieces.status();
  if (*pieces < 1 || frame.operands.size() != frame.results.size()) return NotOurs(frame, "it has no pieces");
  const Result<std::vector<Pair>> pairs = ReadArrays(frame, frame.results.size());
  if (!pairs.ok()) return pairs.status();
  arguments.parts.op = kOp;
  arguments.rest.op =
      kOp == CollectiveOp::kReduceScatter ? CollectiveOp::kAllReduce : CollectiveOp::kCollectiveBroadcast;
  arguments.parts.name = arguments.rest.name = frame.call.name;
  arguments.parts.group = arguments.rest.group = frame.decoded.group;
  if constexpr (IsReducing(kOp)) {
    const Result<ReductionKind> reduction = ReadReduction(frame.attributes);
    if (!reduction.ok()) return reduction.status();
    arguments.parts.reduction = arguments.rest.reduction = *reduction;
  }
  for (const Pair& pair : *pairs) {
    XLA_SHMEM_RETURN_IF_ERROR(AddParts<kOp>(frame, pair, static_cast<size_t>(*pieces), &arguments));
  }
  if constexpr (IsReducing(kOp)) {
    XLA_SHMEM_RETURN_IF_ERROR(CheckReducible(frame.call.name, arguments.parts.types, arguments.parts.reduction));
  }
  return arguments;
}

Status Run(gpu::Transfers& transfers, PartsArguments arguments, gpu::CudaStream stream) {
  arguments.parts.tag = arguments.rest.tag = arguments.tag;
  arguments.parts.follower = std::move(arguments.follower);
  XLA_SHMEM_RETURN_IF_ERROR(transfers.RunGroup(arguments.parts, stream));
  return arguments.rest.buffers.bytes.empty() ? Status() : transfers.RunGroup(arguments.rest, stream);
}

template <CollectiveOp kOp>
ffi::Error CallParts(gpu::CudaStream stream, ffi::RunId run, int32_t device, ffi::RemainingArgs operands,
                     ffi::RemainingRets results, ffi::Dictionary attributes) {
  const auto enqueue = [&](gpu::Transfers& transfers, const CallIdentity& /*call*/, PartsArguments arguments) {
    return Run(transfers, std::move(arguments), stream);
  };
  return EnqueueCall<kOp>(ReadMovedOrReduced<kOp>, enqueue, {stream, run.run_id, device}, operands, results,
                          attributes);
}

Result<gpu::PermuteArguments> ReadPermute(const GpuCallFrame& frame) {
  const Result<std::vector<int64_t>> received_by = ReadInts(frame.attributes, "received_by");
  if (!received_by.ok()) return received_by.status();
  if (frame.operands.size() != 2 * frame.results.size()) return NotOurs(frame, "it has too few arrays");
  const Result<std::vector<Pair>> arrays = ReadArrays(frame, frame.results.size());
  if (!arrays.ok()) return arrays.status();
  gpu::PermuteArguments permute;
  permute.name = frame.call.name;
  permute.source = frame.decoded.neighbours.source;
  permute.target = frame.decoded.neighbours.target;
  permute.keeps_results = std::count(received_by->begin(), received_by->end(), frame.gpu->job_pe()) != 0;
  for (size_t i = 0; i < arrays->size(); ++i) {
    const Pair& array = (*arrays)[i];
    ffi::ErrorOr<ffi::AnyBuffer> received = frame.operands.get<ffi::AnyBuffer>(arrays->size() + i);
    if (array.operand_bytes != array.result_bytes || received.has_error() ||
        (*received).untyped_data() != array.result) {
      return NotOurs(frame, "operand and result do not match");
    }
    permute.buffers.operands.push_back(array.operand);
    permute.buffers.results.push_back(array.result);
    permute.buffers.bytes.push_back(array.result_bytes);
  }
  return permute;
}

ffi::Error CallPermute(gpu::CudaStream stream, ffi::RunId run, int32_t device, ffi::RemainingArgs operands,
                       ffi::RemainingRets results, ffi::Dictionary attributes) {
  const auto enqueue = [&](gpu::Transfers& transfers, const CallIdentity& /*call*/,
                           const gpu::PermuteArguments& permute) { return transfers.RunPermute(permute, stream); };
  return EnqueueCall<CollectiveOp::kCollectivePermute>(ReadPermute, enqueue, {stream, run.run_id, device}, operands,
                                                       results, attributes);
}

template <auto kCall>
GpuCallRegistration Register(PartTarget target) noexcept {
  return {PartTargetName(target), {CallWhole<kCall, true>, CallWhole<kCall, false>}};
}

const GpuCallRegistration gpu_collective_parts[] = {
    Register<CallParts<CollectiveOp::kReduceScatter>>(PartTarget::kReduceScatter),
    Register<CallParts<CollectiveOp::kAllGather>>(PartTarget::kAllGather),
    Register<CallParts<CollectiveOp::kAllToAll>>(PartTarget::kAllToAll),
    Register<CallPermute>(PartTarget::kPermute),
};

}  // namespace
}  // namespace xla_shmem
