// The parts of a call that the handlers of all ops read, and the handler of an op made from the function that reads its
// arguments. Every reader returns an error for a call that this xla-shmem did not write.
#ifndef XLA_SHMEM_BINDINGS_FFI_CPU_HANDLER_H_
#define XLA_SHMEM_BINDINGS_FFI_CPU_HANDLER_H_

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_patch/bindings/ffi/call_arguments.h"
#include "xla_patch/bindings/ffi/cpu/collectives.h"
#include "xla_patch/bindings/ffi/cpu/loaded_call.h"
#include "xla_patch/types/collective_op.h"
#include "xla_patch/types/reduction_kind.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

// One execution of a call on one PE.
struct CallFrame {
  const LoadedCall& call;
  int pe;
  bool shares_process;  // with other PEs
  ::xla::ffi::RemainingArgs operands;
  ::xla::ffi::RemainingRets results;
};

Result<const PePairs*> PairsOf(const CallFrame& frame);
Result<const PeGroups*> GroupsOf(const CallFrame& frame);
// The group of this PE, which must be in one.
Result<std::vector<int>> OwnGroup(const CallFrame& frame);
Result<ReductionKind> ReductionOf(const CallFrame& frame);

// Bytes of all operands together.
size_t OperandBytes(const CallFrame& frame);

template <CollectiveOp kOp>
::xla::ffi::ErrorOr<std::unique_ptr<LoadedCall>> InstantiateCall(::xla::ffi::Dictionary attributes) {
  return Load(OpName(kOp), attributes);
}

template <typename Arguments, Status (*Read)(const CallFrame&, Arguments*)>
Outcome ExecuteCall(const LoadedCall* call, ::xla::ffi::RunId run, int32_t device, ::xla::ffi::RemainingArgs operands,
                    ::xla::ffi::RemainingRets results, ::xla::ffi::Dictionary /*attributes: read when loaded*/) {
  try {
    const Result<const PeContext*> context = FindContext(*call, device);
    if (!context.ok()) return FailJob(context.message());
    const int pe = (*context)->pe;
    const CallFrame frame{*call, pe, (*context)->meetings != nullptr, operands, results};
    Arguments arguments;
    arguments.name = call->label;
    if (const Status status = Read(frame, &arguments); !status.ok()) return FailJob(status.message());
    Result<ExecutionCounter::Execution> counted = Count(*call, pe, run);
    if (!counted.ok()) return Failed(counted.status());
    arguments.key = {call->identity.operation, counted->number};
    Execution execution{pe, counted->number, OperandBytes(frame), std::move(counted->running)};
    return Start(*call, std::move(execution), MakeOperation(*context, std::move(arguments)));
  } catch (const std::exception& error) {
    return FailJob(call->label + ": " + error.what());
  }
}

// `Arguments` are those of thunks/cpu; `Read` sets the op's own fields of the arguments. XLA takes the two stages as
// plain functions.
template <CollectiveOp kOp, typename Arguments, Status (*Read)(const CallFrame&, Arguments*)>
CpuHandler MakeCpuHandler(const char* target = InfoOf(kOp).target) noexcept {
  static_assert(InfoOf(kOp).Has(op_trait::kOnCpu), "the table of ops does not carry this one on CPU");
  return {target,
          [](XLA_FFI_CallFrame* frame) {
            static auto* const handler = ::xla::ffi::Ffi::BindInstantiate().Attrs().To(InstantiateCall<kOp>).release();
            return handler->Call(frame);
          },
          [](XLA_FFI_CallFrame* frame) {
            static auto* const handler = ::xla::ffi::Ffi::Bind()
                                             .Ctx<::xla::ffi::State<LoadedCall>>()
                                             .Ctx<::xla::ffi::RunId>()
                                             .Ctx<::xla::ffi::DeviceOrdinal>()
                                             .RemainingArgs()
                                             .RemainingRets()
                                             .Attrs()
                                             .To(ExecuteCall<Arguments, Read>)
                                             .release();
            return handler->Call(frame);
          }};
}

// Of the calls around collectives of the default backend (marks.cc).
std::vector<CpuHandler> MarkHandlers();
// Of the parts of divided collectives (collective_parts.cc).
std::vector<CpuHandler> PartHandlers();

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_FFI_CPU_HANDLER_H_
