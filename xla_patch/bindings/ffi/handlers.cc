#include "xla_patch/bindings/ffi/handlers.h"

#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "xla_patch/bindings/ffi/loaded_call.h"
#include "xla_patch/thunks/cpu/all_gather.h"
#include "xla_patch/thunks/cpu/all_reduce.h"
#include "xla_patch/thunks/cpu/all_to_all.h"
#include "xla_patch/thunks/cpu/collective_broadcast.h"
#include "xla_patch/thunks/cpu/collective_permute.h"
#include "xla_patch/thunks/cpu/reduce_scatter.h"
#include "xla_patch/thunks/reduction.h"

namespace xla_shmem {
namespace {

namespace ffi = ::xla::ffi;

// What a handler is called with, on one PE.
struct Frame {
  const LoadedCall& call;
  int pe;
  ffi::RemainingArgs operands;
  ffi::RemainingRets results;
};

bool Lacks(const char* what, std::string* error) {
  *error = std::string("a call has no ") + what + "; it was not written by this xla-shmem";
  return false;
}

bool TakeGroup(const Frame& frame, std::vector<int>* group, std::string* error) {
  if (!frame.call.groups.has_value()) return Lacks("groups", error);
  const std::vector<int>* found = FindGroup(*frame.call.groups, frame.pe);
  if (found == nullptr) {
    *error = InNoGroup(frame.call.identity.name, frame.pe);
    return false;
  }
  *group = *found;
  return true;
}

template <typename Arguments>
bool TakeBuffers(const Frame& frame, size_t operand_parts, size_t result_parts, Arguments* arguments,
                 std::vector<ElementType>* types, std::string* error) {
  Buffers buffers;
  if (!ReadBuffers(frame.operands, frame.results, operand_parts, result_parts, &buffers, error)) return false;
  arguments->operands = std::move(buffers.operands);
  arguments->results = std::move(buffers.results);
  arguments->bytes = std::move(buffers.bytes);
  *types = std::move(buffers.types);
  return true;
}

// Of ops that only move what they are given.
template <typename Arguments>
bool TakeBytes(const Frame& frame, size_t result_parts, Arguments* arguments, std::string* error) {
  std::vector<ElementType> types;
  return TakeBuffers(frame, 1, result_parts, arguments, &types, error);
}

// Of reducing ops: buffers, their types, and what to do with them.
template <typename Arguments>
bool TakeTerms(const Frame& frame, size_t operand_parts, Arguments* arguments, std::string* error) {
  if (!frame.call.reduction.has_value()) return Lacks("reduction", error);
  arguments->reduction = *frame.call.reduction;
  return TakeBuffers(frame, operand_parts, 1, arguments, &arguments->types, error) &&
         CheckReducible(arguments->name, arguments->types, arguments->reduction, Supports, error);
}

bool Read(const Frame& frame, PermuteArguments* permute, std::string* error) {
  if (!frame.call.pairs.has_value()) return Lacks("pairs", error);
  const Neighbours neighbours = FindNeighbours(*frame.call.pairs, frame.pe);
  permute->source = neighbours.source;
  permute->target = neighbours.target;
  return TakeBytes(frame, 1, permute, error);
}

bool Read(const Frame& frame, AllReduceArguments* all_reduce, std::string* error) {
  return TakeGroup(frame, &all_reduce->group, error) && TakeTerms(frame, 1, all_reduce, error);
}

bool Read(const Frame& frame, AllGatherArguments* all_gather, std::string* error) {
  return TakeGroup(frame, &all_gather->group, error) && TakeBytes(frame, all_gather->group.size(), all_gather, error);
}

bool Read(const Frame& frame, ReduceScatterArguments* reduce_scatter, std::string* error) {
  return TakeGroup(frame, &reduce_scatter->group, error) &&
         TakeTerms(frame, reduce_scatter->group.size(), reduce_scatter, error);
}

// A PE may be in no group: its results become zeros.
bool Read(const Frame& frame, CollectiveBroadcastArguments* broadcast, std::string* error) {
  if (!frame.call.groups.has_value()) return Lacks("groups", error);
  const std::vector<int>* group = FindGroup(*frame.call.groups, frame.pe);
  if (group != nullptr) broadcast->group = *group;
  return TakeBytes(frame, 1, broadcast, error);
}

// On either side one array that is cut among the members, or one for each of them.
bool Read(const Frame& frame, AllToAllArguments* all_to_all, std::string* error) {
  if (!TakeGroup(frame, &all_to_all->group, error)) return false;
  Buffers parts;
  if (!ReadParts(frame.operands, frame.results, all_to_all->group.size(), &parts, error)) return false;
  for (const char* operand : parts.operands) all_to_all->operands.push_back({operand});
  for (char* result : parts.results) all_to_all->results.push_back({result});
  all_to_all->bytes = {parts.bytes[0]};
  return true;
}

size_t Sum(const std::vector<size_t>& bytes) { return std::accumulate(bytes.begin(), bytes.end(), size_t{0}); }

// Bytes of the operands.
template <typename Arguments>
size_t OperandBytes(const Arguments& arguments) {
  return Sum(arguments.bytes);
}
size_t OperandBytes(const ReduceScatterArguments& arguments) { return arguments.group.size() * Sum(arguments.bytes); }
size_t OperandBytes(const AllToAllArguments& arguments) { return arguments.group.size() * Sum(arguments.bytes); }

constexpr char kPermute[] = "collective-permute";
constexpr char kAllReduce[] = "all-reduce";
constexpr char kAllGather[] = "all-gather";
constexpr char kReduceScatter[] = "reduce-scatter";
constexpr char kAllToAll[] = "all-to-all";
constexpr char kBroadcast[] = "collective-broadcast";

template <const char* op>
ffi::ErrorOr<std::unique_ptr<LoadedCall>> Instantiate(ffi::Dictionary attributes) {
  return Load(op, attributes);
}

template <typename OperationOfKind, typename Arguments>
Outcome Execute(const LoadedCall* call, ffi::RunId run, int32_t device, ffi::RemainingArgs operands,
                ffi::RemainingRets results, ffi::Dictionary /*attributes: read when loaded*/) {
  std::string error;
  const PeContext* context = FindContext(*call, device, &error);
  if (context == nullptr) return Failed(error);
  Arguments arguments;
  arguments.name = call->identity.name;
  if (!Read({*call, context->pe, operands, results}, &arguments, &error)) return Failed(error);
  arguments.key = NextKey(*call, context->pe, run);
  const Execution execution{context->pe, arguments.key.execution, OperandBytes(arguments)};
  return Start(*call, execution, std::make_unique<OperationOfKind>(context, std::move(arguments)));
}

auto Binding() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::State<LoadedCall>>()
      .Ctx<ffi::RunId>()
      .Ctx<ffi::DeviceOrdinal>()
      .RemainingArgs()
      .RemainingRets()
      .Attrs();
}

// The two stages of a target; XLA wants plain functions.
template <const char* op, typename OperationOfKind, typename Arguments>
CpuHandler Handler(const char* target) {
  return {target,
          [](XLA_FFI_CallFrame* frame) {
            static auto* const handler = ffi::Ffi::BindInstantiate().Attrs().To(Instantiate<op>).release();
            return handler->Call(frame);
          },
          [](XLA_FFI_CallFrame* frame) {
            static auto* const handler = Binding().To(Execute<OperationOfKind, Arguments>).release();
            return handler->Call(frame);
          }};
}

}  // namespace

XLA_FFI_TypeId* LoadedCallTypeId() { return &LoadedCall::id; }
XLA_FFI_TypeInfo* LoadedCallTypeInfo() {
  static XLA_FFI_TypeInfo info = ffi::MakeTypeInfo<LoadedCall>();
  return &info;
}

std::vector<CpuHandler> CpuHandlers() {
  return {
      Handler<kPermute, PermuteOperation, PermuteArguments>("xla_shmem.collective_permute"),
      Handler<kAllReduce, AllReduceOperation, AllReduceArguments>("xla_shmem.all_reduce"),
      Handler<kAllGather, AllGatherOperation, AllGatherArguments>("xla_shmem.all_gather"),
      Handler<kReduceScatter, ReduceScatterOperation, ReduceScatterArguments>("xla_shmem.reduce_scatter"),
      Handler<kAllToAll, AllToAllOperation, AllToAllArguments>("xla_shmem.all_to_all"),
      Handler<kBroadcast, CollectiveBroadcastOperation, CollectiveBroadcastArguments>("xla_shmem.collective_broadcast"),
  };
}

}  // namespace xla_shmem
