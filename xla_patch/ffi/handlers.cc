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

ffi::Error ToError(const std::string& text) { return ffi::Error::Internal("xla_shmem: " + text); }

Outcome Failed(const std::string& text) { return {ToError(text), std::nullopt}; }

std::string FullName(std::string_view module, std::string_view name) {
  return std::string(module).append("/").append(name);
}

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

// Operands and results of a call, which come in equal numbers and shapes.
struct Buffers {
  std::vector<const char*> operands;
  std::vector<char*> results;
  std::vector<size_t> bytes;
  std::vector<ffi::DataType> types;
};

bool ReadBuffers(ffi::RemainingArgs arguments, ffi::RemainingRets results, Buffers* buffers, std::string* error) {
  if (arguments.size() != results.size()) {
    *error = "a call has " + std::to_string(arguments.size()) + " operands and " + std::to_string(results.size()) +
             " results; it was not written by this xla-shmem";
    return false;
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    ffi::ErrorOr<ffi::AnyBuffer> operand = arguments.get<ffi::AnyBuffer>(i);
    ffi::ErrorOr<ffi::Result<ffi::AnyBuffer>> result = results.get<ffi::AnyBuffer>(i);
    if (operand.has_error() || result.has_error() || (*operand).size_bytes() != (**result).size_bytes()) {
      *error =
          "operand and result " + std::to_string(i) + " of a call do not match; it was not written by this xla-shmem";
      return false;
    }
    buffers->operands.push_back(static_cast<const char*>((*operand).untyped_data()));
    buffers->results.push_back(static_cast<char*>((**result).untyped_data()));
    buffers->bytes.push_back((*operand).size_bytes());
    buffers->types.push_back((*operand).element_type());
  }
  return true;
}

std::optional<ElementType> ToElementType(ffi::DataType type) {
  switch (type) {
    case ffi::DataType::F32:
      return ElementType::kF32;
    case ffi::DataType::F64:
      return ElementType::kF64;
    case ffi::DataType::F16:
      return ElementType::kF16;
    case ffi::DataType::BF16:
      return ElementType::kBf16;
    case ffi::DataType::S8:
      return ElementType::kS8;
    case ffi::DataType::S16:
      return ElementType::kS16;
    case ffi::DataType::S32:
      return ElementType::kS32;
    case ffi::DataType::S64:
      return ElementType::kS64;
    case ffi::DataType::U8:
      return ElementType::kU8;
    case ffi::DataType::U16:
      return ElementType::kU16;
    case ffi::DataType::U32:
      return ElementType::kU32;
    case ffi::DataType::U64:
      return ElementType::kU64;
    default:
      return std::nullopt;
  }
}

std::optional<ReductionKind> ToReduction(std::string_view name) {
  if (name == "sum") return ReductionKind::kSum;
  if (name == "prod") return ReductionKind::kProd;
  if (name == "min") return ReductionKind::kMin;
  if (name == "max") return ReductionKind::kMax;
  return std::nullopt;
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
  const ffi::ErrorOr<int64_t> topology = attributes.get<int64_t>("topology");
  if (topology.has_error()) return Refused("a call has no topology; it was not written by this xla-shmem");
  if (*topology != Runtime::Get().topology_fingerprint()) {
    return Refused("this executable was compiled for another arrangement of processes, hosts or devices (topology " +
                   std::to_string(*topology) + ", here " + std::to_string(Runtime::Get().topology_fingerprint()) +
                   ") and would talk to the wrong PEs: compile it again here");
  }
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
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (pairs[i] == context->pe) permute.target = static_cast<int>(pairs[i + 1]);
    if (pairs[i + 1] == context->pe) permute.source = static_cast<int>(pairs[i]);
  }
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
  const std::optional<ReductionKind> reduction = ToReduction(reduction_name);
  if (!reduction.has_value())
    return Failed(std::string(name) + ": unknown reduction \"" + std::string(reduction_name) + "\"");
  all_reduce.reduction = *reduction;
  for (ffi::DataType type : buffers.types) {
    const std::optional<ElementType> element = ToElementType(type);
    if (!element.has_value()) return Failed(std::string(name) + ": this element type cannot be reduced");
    all_reduce.types.push_back(*element);
  }
  for (size_t group = 0; group + 1 < group_offsets.size(); ++group) {
    std::vector<int> members(groups.begin() + group_offsets[group], groups.begin() + group_offsets[group + 1]);
    for (int pe : members) {
      if (pe == context->pe) all_reduce.group = members;
    }
  }
  if (all_reduce.group.empty()) {
    return Failed(std::string(name) + ": PE " + std::to_string(context->pe) + " is in none of its replica groups");
  }
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
