#include "xla_patch/ffi/handlers.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_patch/ffi/call_arguments.h"
#include "xla_patch/ffi/runtime.h"
#include "xla_patch/thunks/all_reduce.h"
#include "xla_patch/thunks/collective_permute.h"

namespace xla_shmem {

// What a handler gives back: done (with or without an error), or a future. Unlike ffi::Future, "done" costs no
// allocation.
struct Outcome {
  std::optional<::xla::ffi::Error> error;
  std::optional<::xla::ffi::Future> future;
};

// A call of a loaded executable: XLA makes one when it loads the executable and hands it to every execution.
struct LoadedCall {
  static ::xla::ffi::TypeId id;
  uint64_t executable;  // for ExecutionCounter; never used twice, in no other call either
};

}  // namespace xla_shmem

namespace xla::ffi {

template <ExecutionStage stage>
struct ResultEncoding<stage, ::xla_shmem::Outcome> {
  static std::variant<XLA_FFI_Error*, XLA_FFI_Future*> Encode(const XLA_FFI_Api* api, XLA_FFI_ExecutionContext* context,
                                                              ::xla_shmem::Outcome outcome) {
    if (outcome.future.has_value()) {
      return ResultEncoding<stage, Future>::Encode(api, context, std::move(*outcome.future));
    }
    if (outcome.error.has_value()) return internal::CreateError(api, *outcome.error);
    return static_cast<XLA_FFI_Error*>(nullptr);
  }
};

}  // namespace xla::ffi

namespace xla_shmem {
namespace {

namespace ffi = ::xla::ffi;

Outcome Failed(const std::string& text) { return {ToError(text), std::nullopt}; }

// Runs `operation` as far as it goes now, and leaves the rest to the engine.
Outcome Start(std::unique_ptr<Operation> operation) {
  host::ProgressEngine& engine = Runtime::Get().engine();
  std::string error;
  if (engine.TryInline(*operation, &error)) return {};
  if (!error.empty()) return Failed(error);
  ffi::Promise promise;
  Outcome outcome{std::nullopt, ffi::Future(promise)};
  engine.Submit(std::move(operation), [promise](const std::string& failure) mutable {
    failure.empty() ? promise.SetAvailable() : promise.SetError(ToError(failure));
  });
  return outcome;
}

const PeContext* FindContext(int32_t device, std::string_view name, std::string* error) {
  const PeContext* context = Runtime::Get().ContextOfDevice(device);
  if (context == nullptr) {
    *error =
        std::string(name) + " runs on device " + std::to_string(device) + ", which is not one of this process's PEs";
  }
  return context;
}

using LoadedCallResult = ffi::ErrorOr<std::unique_ptr<LoadedCall>>;

LoadedCallResult Refused(const std::string& text) { return ffi::Unexpected(ToError(text)); }

LoadedCallResult Instantiate(ffi::Dictionary attributes) {
  const std::string error = Runtime::Get().EnsureConnected();
  if (!error.empty()) return Refused("an executable with xla-shmem calls cannot be loaded here: " + error);
  const std::string mismatch =
      CheckTopology(attributes.get<int64_t>("topology"), Runtime::Get().topology_fingerprint());
  if (!mismatch.empty()) return Refused(mismatch);
  static std::atomic<uint64_t> loaded{0};
  return std::make_unique<LoadedCall>(LoadedCall{++loaded});
}

Outcome CollectivePermute(const LoadedCall* call, ffi::RunId run, int32_t device, ffi::RemainingArgs arguments,
                          ffi::RemainingRets results, int64_t operation, std::string_view module, std::string_view name,
                          int64_t /*topology*/, ffi::Span<const int64_t> pairs) {
  std::string error;
  const PeContext* context = FindContext(device, name, &error);
  Buffers buffers;
  if (context == nullptr || !ReadBuffers(arguments, results, &buffers, &error)) return Failed(error);
  PermuteArguments permute;
  permute.name = FullName(module, name);
  const Neighbours neighbours = FindNeighbours(pairs, context->pe);
  permute.source = neighbours.source;
  permute.target = neighbours.target;
  const auto id = static_cast<uint64_t>(operation);
  permute.key = {id, Runtime::Get().executions().Next(id, context->pe, call->executable, run.run_id)};
  permute.operands = std::move(buffers.operands);
  permute.results = std::move(buffers.results);
  permute.bytes = std::move(buffers.bytes);
  return Start(std::make_unique<PermuteOperation>(context, std::move(permute)));
}

Outcome AllReduce(const LoadedCall* call, ffi::RunId run, int32_t device, ffi::RemainingArgs arguments,
                  ffi::RemainingRets results, int64_t operation, std::string_view module, std::string_view name,
                  int64_t /*topology*/, std::string_view reduction_name, ffi::Span<const int64_t> group_offsets,
                  ffi::Span<const int64_t> groups) {
  std::string error;
  const PeContext* context = FindContext(device, name, &error);
  Buffers buffers;
  if (context == nullptr || !ReadBuffers(arguments, results, &buffers, &error)) return Failed(error);
  AllReduceArguments all_reduce;
  all_reduce.name = FullName(module, name);
  AllReduceAttributes attributes;
  if (!ReadAllReduce(all_reduce.name, reduction_name, group_offsets, groups, buffers.types, context->pe, &attributes,
                     &error)) {
    return Failed(error);
  }
  all_reduce.reduction = attributes.reduction;
  all_reduce.group = std::move(attributes.group);
  all_reduce.types = std::move(attributes.types);
  const auto id = static_cast<uint64_t>(operation);
  all_reduce.key = {id, Runtime::Get().executions().Next(id, context->pe, call->executable, run.run_id)};
  all_reduce.operands = std::move(buffers.operands);
  all_reduce.results = std::move(buffers.results);
  all_reduce.bytes = std::move(buffers.bytes);
  return Start(std::make_unique<AllReduceOperation>(context, std::move(all_reduce)));
}

XLA_FFI_DEFINE_HANDLER(kInstantiate, Instantiate, ffi::Ffi::BindInstantiate().Attrs());

XLA_FFI_DEFINE_HANDLER(kCollectivePermute, CollectivePermute,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::State<LoadedCall>>()
                           .Ctx<ffi::RunId>()
                           .Ctx<ffi::DeviceOrdinal>()
                           .RemainingArgs()
                           .RemainingRets()
                           .Attr<int64_t>("op")
                           .Attr<std::string_view>("module")
                           .Attr<std::string_view>("name")
                           .Attr<int64_t>("topology")
                           .Attr<ffi::Span<const int64_t>>("pairs"));

XLA_FFI_DEFINE_HANDLER(kAllReduce, AllReduce,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::State<LoadedCall>>()
                           .Ctx<ffi::RunId>()
                           .Ctx<ffi::DeviceOrdinal>()
                           .RemainingArgs()
                           .RemainingRets()
                           .Attr<int64_t>("op")
                           .Attr<std::string_view>("module")
                           .Attr<std::string_view>("name")
                           .Attr<int64_t>("topology")
                           .Attr<std::string_view>("reduction")
                           .Attr<ffi::Span<const int64_t>>("group_offsets")
                           .Attr<ffi::Span<const int64_t>>("groups"));

}  // namespace

ffi::TypeId LoadedCall::id = XLA_FFI_UNKNOWN_TYPE_ID;

XLA_FFI_TypeId* LoadedCallTypeId() { return &LoadedCall::id; }
XLA_FFI_TypeInfo* LoadedCallTypeInfo() {
  static XLA_FFI_TypeInfo info = ffi::MakeTypeInfo<LoadedCall>();
  return &info;
}

XLA_FFI_Error* InstantiateHandler(XLA_FFI_CallFrame* frame) { return kInstantiate(frame); }
XLA_FFI_Error* CollectivePermuteHandler(XLA_FFI_CallFrame* frame) { return kCollectivePermute(frame); }
XLA_FFI_Error* AllReduceHandler(XLA_FFI_CallFrame* frame) { return kAllReduce(frame); }

}  // namespace xla_shmem
