#include "xla_patch/ffi/handlers.h"

#include <memory>
#include <string>
#include <utility>

#include "xla_patch/ffi/loaded_call.h"
#include "xla_patch/thunks/all_gather.h"
#include "xla_patch/thunks/all_reduce.h"
#include "xla_patch/thunks/all_to_all.h"
#include "xla_patch/thunks/collective_broadcast.h"
#include "xla_patch/thunks/collective_permute.h"
#include "xla_patch/thunks/reduce_scatter.h"

namespace xla_shmem {
namespace {

namespace ffi = ::xla::ffi;

// One execution of a call on one PE.
struct Execution {
  const LoadedCall& call;
  int pe;
  ffi::RemainingArgs operands;
  ffi::RemainingRets results;
};

bool Lacks(const char* what, std::string* error) {
  *error = std::string("a call has no ") + what + "; it was not written by this xla-shmem";
  return false;
}

bool TakeGroup(const Execution& execution, std::vector<int>* group, std::string* error) {
  if (!execution.call.groups.has_value()) return Lacks("groups", error);
  const std::vector<int>* found = FindGroup(*execution.call.groups, execution.pe);
  if (found == nullptr) {
    *error = InNoGroup(execution.call.identity.name, execution.pe);
    return false;
  }
  *group = *found;
  return true;
}

template <typename Arguments>
bool TakeBuffers(const Execution& execution, size_t operand_parts, size_t result_parts, Arguments* arguments,
                 std::vector<ffi::DataType>* types, std::string* error) {
  Buffers buffers;
  if (!ReadBuffers(execution.operands, execution.results, operand_parts, result_parts, &buffers, error)) return false;
  arguments->operands = std::move(buffers.operands);
  arguments->results = std::move(buffers.results);
  arguments->bytes = std::move(buffers.bytes);
  *types = std::move(buffers.types);
  return true;
}

// Of ops that only move what they are given.
template <typename Arguments>
bool TakeBytes(const Execution& execution, size_t result_parts, Arguments* arguments, std::string* error) {
  std::vector<ffi::DataType> types;
  return TakeBuffers(execution, 1, result_parts, arguments, &types, error);
}

// Of reducing ops: buffers, their types, and what to do with them.
template <typename Arguments>
bool TakeTerms(const Execution& execution, size_t operand_parts, Arguments* arguments, std::string* error) {
  if (!execution.call.reduction.has_value()) return Lacks("reduction", error);
  arguments->reduction = *execution.call.reduction;
  std::vector<ffi::DataType> types;
  return TakeBuffers(execution, operand_parts, 1, arguments, &types, error) &&
         ToElementTypes(arguments->name, types, arguments->reduction, Supports, &arguments->types, error);
}

bool Read(const Execution& execution, PermuteArguments* permute, std::string* error) {
  if (!execution.call.pairs.has_value()) return Lacks("pairs", error);
  const Neighbours neighbours = FindNeighbours(*execution.call.pairs, execution.pe);
  permute->source = neighbours.source;
  permute->target = neighbours.target;
  return TakeBytes(execution, 1, permute, error);
}

bool Read(const Execution& execution, AllReduceArguments* all_reduce, std::string* error) {
  return TakeGroup(execution, &all_reduce->group, error) && TakeTerms(execution, 1, all_reduce, error);
}

bool Read(const Execution& execution, AllGatherArguments* all_gather, std::string* error) {
  return TakeGroup(execution, &all_gather->group, error) &&
         TakeBytes(execution, all_gather->group.size(), all_gather, error);
}

bool Read(const Execution& execution, ReduceScatterArguments* reduce_scatter, std::string* error) {
  return TakeGroup(execution, &reduce_scatter->group, error) &&
         TakeTerms(execution, reduce_scatter->group.size(), reduce_scatter, error);
}

// A PE may be in no group: its results become zeros.
bool Read(const Execution& execution, CollectiveBroadcastArguments* broadcast, std::string* error) {
  if (!execution.call.groups.has_value()) return Lacks("groups", error);
  const std::vector<int>* group = FindGroup(*execution.call.groups, execution.pe);
  if (group != nullptr) broadcast->group = *group;
  return TakeBytes(execution, 1, broadcast, error);
}

// One array that is cut among the members, or one for each of them.
bool Read(const Execution& execution, AllToAllArguments* all_to_all, std::string* error) {
  if (!TakeGroup(execution, &all_to_all->group, error)) return false;
  const size_t members = all_to_all->group.size();
  const size_t parts = execution.operands.size() == 1 ? members : 1;
  Buffers buffers;
  if (!ReadBuffers(execution.operands, execution.results, parts, parts, &buffers, error)) return false;
  if (buffers.operands.size() * parts != members) {
    *error = all_to_all->name + ": " + std::to_string(buffers.operands.size()) + " operands for a group of " +
             std::to_string(members) + "; it was not written by this xla-shmem";
    return false;
  }
  for (size_t member = 0; member < members; ++member) {
    const size_t buffer = parts == 1 ? member : 0;
    const size_t offset = parts == 1 ? 0 : member * buffers.bytes[0];
    all_to_all->operands.push_back({buffers.operands[buffer] + offset});
    all_to_all->results.push_back({buffers.results[buffer] + offset});
    if (buffers.bytes[buffer] != buffers.bytes[0]) {
      *error = all_to_all->name + ": its operands differ in size; it was not written by this xla-shmem";
      return false;
    }
  }
  all_to_all->bytes = {buffers.bytes[0]};
  return true;
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
  return Start(std::make_unique<OperationOfKind>(context, std::move(arguments)));
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

XLA_FFI_DEFINE_HANDLER(kInstantiate, Load, ffi::Ffi::BindInstantiate().Attrs());
XLA_FFI_DEFINE_HANDLER(kPermute, (Execute<PermuteOperation, PermuteArguments>), Binding());
XLA_FFI_DEFINE_HANDLER(kAllReduce, (Execute<AllReduceOperation, AllReduceArguments>), Binding());
XLA_FFI_DEFINE_HANDLER(kAllGather, (Execute<AllGatherOperation, AllGatherArguments>), Binding());
XLA_FFI_DEFINE_HANDLER(kReduceScatter, (Execute<ReduceScatterOperation, ReduceScatterArguments>), Binding());
XLA_FFI_DEFINE_HANDLER(kAllToAll, (Execute<AllToAllOperation, AllToAllArguments>), Binding());
XLA_FFI_DEFINE_HANDLER(kBroadcast, (Execute<CollectiveBroadcastOperation, CollectiveBroadcastArguments>), Binding());

}  // namespace

XLA_FFI_TypeId* LoadedCallTypeId() { return &LoadedCall::id; }
XLA_FFI_TypeInfo* LoadedCallTypeInfo() {
  static XLA_FFI_TypeInfo info = ffi::MakeTypeInfo<LoadedCall>();
  return &info;
}

XLA_FFI_Error* CpuInstantiateHandler(XLA_FFI_CallFrame* frame) { return kInstantiate(frame); }

std::vector<CpuHandler> CpuHandlers() {
  return {
      {"xla_shmem.collective_permute", [](XLA_FFI_CallFrame* frame) { return kPermute(frame); }},
      {"xla_shmem.all_reduce", [](XLA_FFI_CallFrame* frame) { return kAllReduce(frame); }},
      {"xla_shmem.all_gather", [](XLA_FFI_CallFrame* frame) { return kAllGather(frame); }},
      {"xla_shmem.reduce_scatter", [](XLA_FFI_CallFrame* frame) { return kReduceScatter(frame); }},
      {"xla_shmem.all_to_all", [](XLA_FFI_CallFrame* frame) { return kAllToAll(frame); }},
      {"xla_shmem.collective_broadcast", [](XLA_FFI_CallFrame* frame) { return kBroadcast(frame); }},
  };
}

}  // namespace xla_shmem
