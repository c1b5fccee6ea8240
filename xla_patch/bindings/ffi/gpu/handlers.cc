#include "xla_patch/bindings/ffi/gpu/handlers.h"

#include "xla_patch/bindings/ffi/gpu/call_frame.h"
#include "xla_patch/thunks/gpu/message_tag.h"

namespace xla_shmem {
namespace {

namespace ffi = ::xla::ffi;

std::vector<GpuHandler>& Registered() {
  static auto* const handlers = new std::vector<GpuHandler>;
  return *handlers;
}

void AddWhole(const char* target, const WholeHandlers& whole) {
  Registered().push_back({target, whole.in_graphs});
  Registered().push_back({std::string(target).append(kInLoopSuffix), whole.in_loop});
}

// The buffers only tell XLA how long the operands and results live.
ffi::Error Done(gpu::CudaStream stream, ffi::RunId run, int32_t device, ffi::RemainingArgs /*operands*/,
                ffi::RemainingRets /*results*/, ffi::Dictionary attributes) {
  const Result<CallIdentity> call = ReadRunnableCall(attributes);
  if (!call.ok()) return ToError(call.status());
  const Result<GpuRuntime*> gpu = FindGpu(device, call->name);
  if (!gpu.ok()) return ToError(gpu.status());
  const gpu::ScopedContext context((*gpu)->device());
  return ToFfiError((*gpu)->transfers().Finish({call->operation, run.run_id}, call->name, stream));
}

// XLA also instantiates calls for GPUs that this machine lacks, so only a call that runs needs the runtime.
ffi::Error Instantiate(ffi::Dictionary attributes) {
  if (!GpuProcess::Get().EnsureAdmitted()) return ffi::Error::Success();
  const Result<CallIdentity> call = ReadIdentity(attributes);
  if (!call.ok()) return ToError(call.status());
  gpu::RememberTag(TagOfCall(*call, attributes), call->name);
  return ToFfiError(CheckTopology(attributes.get<int64_t>("topology"), GpuProcess::Get().topology_fingerprint()));
}

XLA_FFI_DEFINE_HANDLER(kInstantiate, Instantiate, ffi::Ffi::BindInstantiate().Attrs());
XLA_FFI_DEFINE_HANDLER(kDone, Done, GpuCallBinding());

}  // namespace

const std::vector<GpuHandler>& GpuHandlers() { return Registered(); }

XLA_FFI_Error* GpuInstantiateHandler(XLA_FFI_CallFrame* frame) { return kInstantiate(frame); }

GpuHandlerRegistration::GpuHandlerRegistration(CollectiveOp op, FfiHandler start, WholeHandlers whole) noexcept {
  const CollectiveOpInfo& info = InfoOf(op);
  Registered().push_back({info.start_target, start});
  Registered().push_back({info.done_target, [](XLA_FFI_CallFrame* frame) { return kDone(frame); }});
  AddWhole(info.target, whole);
}

GpuCallRegistration::GpuCallRegistration(const char* target, FfiHandler call) noexcept {
  Registered().push_back({target, call});
}

GpuCallRegistration::GpuCallRegistration(const char* target, WholeHandlers whole) noexcept { AddWhole(target, whole); }

}  // namespace xla_shmem
