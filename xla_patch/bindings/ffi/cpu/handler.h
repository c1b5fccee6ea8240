// Makes the handler of an op from the function that reads its arguments.
#ifndef XLA_SHMEM_BINDINGS_FFI_CPU_HANDLER_H_
#define XLA_SHMEM_BINDINGS_FFI_CPU_HANDLER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "xla/ffi/api/ffi.h"
#include "xla_patch/bindings/ffi/cpu/call_frame.h"
#include "xla_patch/bindings/ffi/cpu/handlers.h"
#include "xla_patch/bindings/ffi/cpu/loaded_call.h"
#include "xla_patch/types/collective_op.h"

namespace xla_shmem {

template <CollectiveOp kOp>
::xla::ffi::ErrorOr<std::unique_ptr<LoadedCall>> InstantiateCall(::xla::ffi::Dictionary attributes) {
  return Load(OpName(kOp), attributes);
}

template <typename Operation, typename Arguments, bool (*Read)(const CallFrame&, Arguments*, std::string*)>
Outcome ExecuteCall(const LoadedCall* call, ::xla::ffi::RunId run, int32_t device, ::xla::ffi::RemainingArgs operands,
                    ::xla::ffi::RemainingRets results, ::xla::ffi::Dictionary /*attributes: read when loaded*/) {
  std::string error;
  const PeContext* context = FindContext(*call, device, &error);
  if (context == nullptr) return Failed(error);
  const CallFrame frame{*call, context->pe, operands, results};
  Arguments arguments;
  arguments.name = call->identity.name;
  if (!Read(frame, &arguments, &error)) return Failed(error);
  arguments.key = NextKey(*call, context->pe, run);
  const Execution execution{context->pe, arguments.key.execution, OperandBytes(frame)};
  return Start(*call, execution, std::make_unique<Operation>(context, std::move(arguments)));
}

// `Operation` and `Arguments` are those of thunks/cpu. XLA takes the two stages as plain functions.
template <CollectiveOp kOp, typename Operation, typename Arguments,
          bool (*Read)(const CallFrame&, Arguments*, std::string*)>
CpuHandler MakeCpuHandler() {
  static_assert(InfoOf(kOp).Has(op_trait::kOnCpu), "the table of ops does not carry this one on CPU");
  return {InfoOf(kOp).target,
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
                                             .To(ExecuteCall<Operation, Arguments, Read>)
                                             .release();
            return handler->Call(frame);
          }};
}

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_FFI_CPU_HANDLER_H_
