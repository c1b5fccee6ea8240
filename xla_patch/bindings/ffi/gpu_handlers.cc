#include "xla_patch/bindings/ffi/gpu_handlers.h"

#include <string>
#include <utility>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_patch/bindings/ffi/call_arguments.h"
#include "xla_patch/nvshmem/gpu_reductions.h"
#include "xla_patch/thunks/gpu/gpu_runtime.h"

namespace xla_shmem {
namespace {

namespace ffi = ::xla::ffi;
using gpu::CudaStream;

ffi::Error ToFfiError(const Status& status) { return status.ok() ? ffi::Error::Success() : ToError(status.message()); }

bool ReadCall(ffi::Dictionary attributes, CallIdentity* call, std::string* error) {
  if (!ReadIdentity(attributes, call, error)) return false;
  if (!GpuRuntime::Get().admitted()) {
    *error = call->name + " cannot run here: the xla-shmem runtime is not running on this process's GPU";
    return false;
  }
  *error = CheckTopology(attributes.get<int64_t>("topology"), GpuRuntime::Get().topology_fingerprint());
  return error->empty();
}

bool HasKernel(ElementType type, ReductionKind reduction) { return FindGpuReduction(type, reduction).has_value(); }

// Converts a PE of the job, -1 for none, to the PE of this NVSHMEM world. The pass does not move collectives across
// worlds.
bool ToWorldPe(const std::string& name, int job_pe, int* world_pe, std::string* error) {
  *world_pe = GpuRuntime::Get().WorldPe(job_pe);
  if (job_pe < 0 || *world_pe >= 0) return true;
  *error = name + ": PE " + std::to_string(job_pe) + " is in another NVSHMEM world; please report this";
  return false;
}

bool ReadPermute(ffi::Dictionary attributes, ffi::RemainingArgs arguments, ffi::RemainingRets results,
                 CallIdentity* call, gpu::PermuteArguments* permute, std::string* error) {
  Buffers buffers;
  PePairs pairs;
  if (!ReadCall(attributes, call, error) || !ReadPairs(attributes, &pairs, error) ||
      !ReadBuffers(arguments, results, 1, 1, &buffers, error)) {
    return false;
  }
  const Neighbours neighbours = FindNeighbours(pairs, GpuRuntime::Get().job_pe());
  permute->name = call->name;
  permute->buffers = {std::move(buffers.operands), std::move(buffers.results), std::move(buffers.bytes)};
  return ToWorldPe(call->name, neighbours.source, &permute->source, error) &&
         ToWorldPe(call->name, neighbours.target, &permute->target, error);
}

bool ReadAllReduce(ffi::Dictionary attributes, ffi::RemainingArgs arguments, ffi::RemainingRets results,
                   CallIdentity* call, gpu::AllReduceArguments* all_reduce, std::string* error) {
  Buffers buffers;
  PeGroups groups;
  ReductionKind reduction = ReductionKind::kSum;
  if (!ReadCall(attributes, call, error) || !ReadReduction(attributes, &reduction, error) ||
      !ReadGroups(attributes, &groups, error) || !ReadBuffers(arguments, results, 1, 1, &buffers, error) ||
      !CheckReducible(call->name, buffers.types, reduction, HasKernel, error)) {
    return false;
  }
  const int job_pe = GpuRuntime::Get().job_pe();
  const std::vector<int>* found = FindGroup(groups, job_pe);
  if (found == nullptr) {
    *error = InNoGroup(call->name, job_pe);
    return false;
  }
  std::vector<int> group = *found;
  for (int& pe : group) {
    if (!ToWorldPe(call->name, pe, &pe, error)) return false;
  }
  *all_reduce = {call->name,
                 reduction,
                 std::move(group),
                 std::move(buffers.types),
                 {std::move(buffers.operands), std::move(buffers.results), std::move(buffers.bytes)}};
  return true;
}

// Reads a call into an `Operation` and enqueues it.
template <typename Operation, typename Read, typename Enqueue>
ffi::Error Run(Read read, Enqueue enqueue, ffi::Dictionary attributes, ffi::RemainingArgs arguments,
               ffi::RemainingRets results) {
  CallIdentity call;
  Operation operation;
  std::string error;
  if (!read(attributes, arguments, results, &call, &operation, &error)) return ToError(error);
  const gpu::ScopedContext context(GpuRuntime::Get().device());
  return ToFfiError(enqueue(GpuRuntime::Get().transfers(), call, operation));
}

ffi::Error PermuteStart(CudaStream stream, ffi::RunId run, ffi::RemainingArgs arguments, ffi::RemainingRets results,
                        ffi::Dictionary attributes) {
  const auto enqueue = [&](gpu::Transfers& transfers, const CallIdentity& call, const gpu::PermuteArguments& permute) {
    return transfers.StartPermute({call.operation, run.run_id}, permute, stream);
  };
  return Run<gpu::PermuteArguments>(ReadPermute, enqueue, attributes, arguments, results);
}

ffi::Error AllReduceStart(CudaStream stream, ffi::RunId run, ffi::RemainingArgs arguments, ffi::RemainingRets results,
                          ffi::Dictionary attributes) {
  const auto enqueue = [&](gpu::Transfers& transfers, const CallIdentity& call,
                           const gpu::AllReduceArguments& all_reduce) {
    return transfers.StartAllReduce({call.operation, run.run_id}, all_reduce, stream);
  };
  return Run<gpu::AllReduceArguments>(ReadAllReduce, enqueue, attributes, arguments, results);
}

// The buffers only tell XLA how long the operands and results live.
ffi::Error Done(CudaStream stream, ffi::RunId run, ffi::RemainingArgs arguments, ffi::RemainingRets results,
                ffi::Dictionary attributes) {
  struct Nothing {};
  const auto read = [](ffi::Dictionary own, ffi::RemainingArgs /*arguments*/, ffi::RemainingRets /*results*/,
                       CallIdentity* call, Nothing* /*operation*/,
                       std::string* error) { return ReadCall(own, call, error); };
  const auto enqueue = [&](gpu::Transfers& transfers, const CallIdentity& call, Nothing /*operation*/) {
    return transfers.Finish({call.operation, run.run_id}, call.name, stream);
  };
  return Run<Nothing>(read, enqueue, attributes, arguments, results);
}

ffi::Error Permute(CudaStream stream, ffi::RunId /*run*/, ffi::RemainingArgs arguments, ffi::RemainingRets results,
                   ffi::Dictionary attributes) {
  const auto enqueue = [&](gpu::Transfers& transfers, const CallIdentity& /*call*/,
                           const gpu::PermuteArguments& permute) { return transfers.ReplayPermute(permute, stream); };
  return Run<gpu::PermuteArguments>(ReadPermute, enqueue, attributes, arguments, results);
}

ffi::Error AllReduce(CudaStream stream, ffi::RunId /*run*/, ffi::RemainingArgs arguments, ffi::RemainingRets results,
                     ffi::Dictionary attributes) {
  const auto enqueue = [&](gpu::Transfers& transfers, const CallIdentity& /*call*/,
                           const gpu::AllReduceArguments& all_reduce) {
    return transfers.ReplayAllReduce(all_reduce, stream);
  };
  return Run<gpu::AllReduceArguments>(ReadAllReduce, enqueue, attributes, arguments, results);
}

// XLA also instantiates calls for GPUs that this machine lacks, so only a call that runs needs the runtime.
ffi::Error Instantiate(ffi::Dictionary attributes) {
  if (!GpuRuntime::Get().EnsureAdmitted()) return ffi::Error::Success();
  const std::string error =
      CheckTopology(attributes.get<int64_t>("topology"), GpuRuntime::Get().topology_fingerprint());
  return error.empty() ? ffi::Error::Success() : ToError(error);
}

auto Binding() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::PlatformStream<CudaStream>>()
      .Ctx<ffi::RunId>()
      .RemainingArgs()
      .RemainingRets()
      .Attrs();
}

XLA_FFI_DEFINE_HANDLER(kInstantiate, Instantiate, ffi::Ffi::BindInstantiate().Attrs());
XLA_FFI_DEFINE_HANDLER(kPermuteStart, PermuteStart, Binding());
XLA_FFI_DEFINE_HANDLER(kAllReduceStart, AllReduceStart, Binding());
XLA_FFI_DEFINE_HANDLER(kDone, Done, Binding());
XLA_FFI_DEFINE_HANDLER(kPermute, Permute, Binding(), {ffi::Traits::kCmdBufferCompatible});
XLA_FFI_DEFINE_HANDLER(kAllReduce, AllReduce, Binding(), {ffi::Traits::kCmdBufferCompatible});

}  // namespace

XLA_FFI_Error* GpuInstantiateHandler(XLA_FFI_CallFrame* frame) { return kInstantiate(frame); }

std::vector<GpuHandler> GpuHandlers() {
  return {
      {"xla_shmem.permute_start", [](XLA_FFI_CallFrame* frame) { return kPermuteStart(frame); }},
      {"xla_shmem.permute_done", [](XLA_FFI_CallFrame* frame) { return kDone(frame); }},
      {"xla_shmem.all_reduce_start", [](XLA_FFI_CallFrame* frame) { return kAllReduceStart(frame); }},
      {"xla_shmem.all_reduce_done", [](XLA_FFI_CallFrame* frame) { return kDone(frame); }},
      {"xla_shmem.collective_permute", [](XLA_FFI_CallFrame* frame) { return kPermute(frame); }},
      {"xla_shmem.all_reduce", [](XLA_FFI_CallFrame* frame) { return kAllReduce(frame); }},
  };
}

}  // namespace xla_shmem
