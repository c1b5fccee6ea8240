// Handlers of the calls around collectives of the default backend (hlo/rewrite/marks.h). They record, never wait, and
// never fail a run.
#include <exception>
#include <memory>

#include "xla_patch/bindings/ffi/cpu/handler.h"
#include "xla_patch/types/collective_op.h"

namespace xla_shmem {
namespace {

namespace ffi = ::xla::ffi;

ffi::Error Begin(const LoadedCall* call, ffi::RunId run, int32_t device, ffi::RemainingArgs /*operands*/,
                 ffi::RemainingRets /*word*/, ffi::Dictionary /*attributes: read when loaded*/) {
  Runtime& runtime = Runtime::Get();
  if (call->marked == nullptr) return ffi::Error::Success();
  const PeContext* const context = runtime.ContextOfDevice(device);
  if (context == nullptr) return ffi::Error::Success();
  try {
    const uint64_t execution =
        runtime.executions().Number(call->identity.operation, context->pe, call->executable, run.run_id);
    call->marked->Begin(context->pe, execution);
  } catch (const std::exception&) {
    return ffi::Error::Success();  // no memory: this execution stays without a record
  }
  return ffi::Error::Success();
}

ffi::Error End(const LoadedCall* call, int32_t device, ffi::RemainingArgs /*results and word*/,
               ffi::RemainingRets /*none*/, ffi::Dictionary /*attributes: read when loaded*/) {
  const PeContext* const context = call->marked == nullptr ? nullptr : Runtime::Get().ContextOfDevice(device);
  if (context != nullptr) call->marked->End(context->pe);
  return ffi::Error::Success();
}

XLA_FFI_Error* Instantiate(XLA_FFI_CallFrame* frame) {
  static auto* const handler = ffi::Ffi::BindInstantiate().Attrs().To(LoadMark).release();
  return handler->Call(frame);
}

XLA_FFI_Error* ExecuteBegin(XLA_FFI_CallFrame* frame) {
  static auto* const handler = ffi::Ffi::Bind()
                                   .Ctx<ffi::State<LoadedCall>>()
                                   .Ctx<ffi::RunId>()
                                   .Ctx<ffi::DeviceOrdinal>()
                                   .RemainingArgs()
                                   .RemainingRets()
                                   .Attrs()
                                   .To(Begin)
                                   .release();
  return handler->Call(frame);
}

XLA_FFI_Error* ExecuteEnd(XLA_FFI_CallFrame* frame) {
  static auto* const handler = ffi::Ffi::Bind()
                                   .Ctx<ffi::State<LoadedCall>>()
                                   .Ctx<ffi::DeviceOrdinal>()
                                   .RemainingArgs()
                                   .RemainingRets()
                                   .Attrs()
                                   .To(End)
                                   .release();
  return handler->Call(frame);
}

}  // namespace

std::vector<CpuHandler> MarkHandlers() {
  return {{kBeginTarget, Instantiate, ExecuteBegin}, {kEndTarget, Instantiate, ExecuteEnd}};
}

}  // namespace xla_shmem
