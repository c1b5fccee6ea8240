#include "xla_patch/bindings/ffi/cpu/loaded_call.h"

#include <atomic>
#include <exception>
#include <utility>
#include <vector>

#include "xla_patch/runtime/measured_operation.h"

namespace xla_shmem {
namespace {

namespace ffi = ::xla::ffi;

Status ReadAttributes(ffi::Dictionary attributes, LoadedCall* call) {
  Result<CallIdentity> identity = ReadIdentity(attributes);
  if (!identity.ok()) return identity.status();
  call->identity = *std::move(identity);
  call->label = call->identity.Label();
  Result<observe::Origin> origin = ReadOrigin(attributes);
  if (!origin.ok()) return origin.status();
  call->origin = *std::move(origin);
  if (attributes.contains("reduction")) {
    const Result<ReductionKind> reduction = ReadReduction(attributes);
    if (!reduction.ok()) return reduction.status();
    call->reduction = *reduction;
  }
  if (attributes.contains("part_bytes")) {
    const Result<int64_t> bytes = ReadInt(attributes, "part_bytes");
    if (!bytes.ok()) return bytes.status();
    call->part_bytes = static_cast<size_t>(*bytes);
  }
  for (const auto& [name, values] :
       {std::pair("positions", &call->positions), {"received_by", &call->received_by}, {"sources", &call->sources}}) {
    if (!attributes.contains(name)) continue;
    Result<std::vector<int64_t>> read = ReadInts(attributes, name);
    if (!read.ok()) return read.status();
    *values = *std::move(read);
  }
  if (attributes.contains("pairs")) {
    Result<PePairs> pairs = ReadPairs(attributes);
    if (!pairs.ok()) return pairs.status();
    call->pairs = *std::move(pairs);
    return Status();
  }
  Result<PeGroups> groups = ReadGroups(attributes);
  if (!groups.ok()) return groups.status();
  call->groups = *std::move(groups);
  return Status();
}

Status CheckLoadable(ffi::Dictionary attributes) {
  if (const Status connected = Runtime::Get().EnsureConnected(); !connected.ok()) {
    return Status::Error("an executable with xla-shmem calls cannot be loaded here: " + connected.message());
  }
  return CheckTopology(attributes.get<int64_t>("topology"), Runtime::Get().topology_fingerprint());
}

observe::Site SiteOf(const char* op, const LoadedCall& call) {
  observe::Site site{call.identity.operation, op, call.identity.name, call.pairs.has_value(), {}, call.identity.source};
  site.origin = call.origin;
  if (call.groups.has_value()) site.groups = *call.groups;
  if (call.pairs.has_value()) site.groups = AsGroups(*call.pairs);
  return site;
}

// A call of the executable that XLA is loading, with its attributes.
Result<std::unique_ptr<LoadedCall>> ReadCall(ffi::Dictionary attributes) {
  static std::atomic<uint64_t> loaded{0};
  auto call = std::make_unique<LoadedCall>();
  XLA_SHMEM_RETURN_IF_ERROR(ReadAttributes(attributes, call.get()));
  call->executable = ++loaded;
  return call;
}

}  // namespace

ffi::TypeId LoadedCall::id = XLA_FFI_UNKNOWN_TYPE_ID;

ffi::ErrorOr<std::unique_ptr<LoadedCall>> Load(const char* op, ffi::Dictionary attributes) {
  try {
    if (const Status loadable = CheckLoadable(attributes); !loadable.ok()) return ffi::Unexpected(ToError(loadable));
    Result<std::unique_ptr<LoadedCall>> call = ReadCall(attributes);
    if (!call.ok()) return ffi::Unexpected(ToError(call.status()));
    observe::Observer& observer = Runtime::Get().observer();
    (*call)->site = observer.AddSite(SiteOf(op, **call));
    if (const std::string fault = observer.FindWrongPairOf((*call)->site->site); !fault.empty()) {
      return ffi::Unexpected(ToError(Runtime::Get().engine().Fail(observer.FailJob((*call)->label + ": " + fault))));
    }
    return *std::move(call);
  } catch (const std::exception& error) {
    return ffi::Unexpected(
        ToError(Status::Error(std::string("a call of ") + op + " cannot be loaded: " + error.what())));
  }
}

ffi::ErrorOr<std::unique_ptr<LoadedCall>> LoadMark(ffi::Dictionary attributes) {
  try {
    Result<std::unique_ptr<LoadedCall>> call = ReadCall(attributes);
    if (!call.ok()) return ffi::Unexpected(ToError(call.status()));
    const Result<std::string> op = ReadString(attributes, "collective");
    if (!op.ok()) return ffi::Unexpected(ToError(op.status()));
    const Result<int64_t> bytes = ReadInt(attributes, "bytes");
    if (!bytes.ok()) return ffi::Unexpected(ToError(bytes.status()));
    if (!CheckLoadable(attributes).ok()) return *std::move(call);
    observe::Site site = SiteOf(op->c_str(), **call);
    site.on_default_backend = true;
    (*call)->marked = Runtime::Get().marked().Add(site, static_cast<uint64_t>(*bytes));
    return *std::move(call);
  } catch (const std::exception& error) {
    return ffi::Unexpected(
        ToError(Status::Error(std::string("a call that records cannot be loaded: ") + error.what())));
  }
}

Outcome Failed(const Status& status) { return {ToError(status), std::nullopt}; }

Outcome FailJob(const std::string& why) { return Failed(Runtime::Get().engine().Fail(why)); }

Outcome Start(const LoadedCall& call, Execution execution, std::unique_ptr<Operation> operation) {
  shm::ProgressEngine& engine = Runtime::Get().engine();
  observe::Observer& observer = Runtime::Get().observer();
  try {
    std::shared_ptr<uint64_t> copied_ns;
    if (observer.measures_copies()) {
      copied_ns = std::make_shared<uint64_t>(0);
      operation = std::make_unique<MeasuredOperation>(std::move(operation), copied_ns);
    }
    const observe::Observer::Span span = observer.Begin(execution.pe, call.site, execution.number, execution.bytes);
    const Result<bool> finished = engine.TryInline(*operation);
    if (!finished.ok()) return Failed(Status::Error(observer.Fail(span, finished.message())));
    if (*finished) {
      execution.running.End();
      observer.End(span, copied_ns == nullptr ? 0 : *copied_ns, /*is_inline=*/true);
      return {};
    }
    observer.MarkWaiting(span);
    shm::FindFault find_fault = [span, &observer](bool is_late) { return observer.FindMismatch(span, is_late); };
    if (Runtime::Get().finish_in_caller()) {
      const Status status = engine.Finish(std::move(operation), std::move(find_fault));
      execution.running.End();
      if (!status.ok()) return Failed(Status::Error(observer.Fail(span, status.message())));
      observer.End(span, copied_ns == nullptr ? 0 : *copied_ns, /*is_inline=*/false);
      return {};
    }
    ffi::Promise promise;
    Outcome outcome{std::nullopt, ffi::Future(promise)};
    const auto running = std::make_shared<ExecutionCounter::Running>(std::move(execution.running));
    engine.Submit(
        std::move(operation),
        [promise, span, copied_ns, running, &observer](const Status& status) mutable {
          running->End();
          if (status.ok()) {
            observer.End(span, copied_ns == nullptr ? 0 : *copied_ns, /*is_inline=*/false);
            promise.SetAvailable();
          } else {
            promise.SetError(ToError(Status::Error(observer.Fail(span, status.message()))));
          }
        },
        std::move(find_fault));
    return outcome;
  } catch (const std::exception& error) {
    // Peers may read the operation's memory until the failure is published.
    const Status failure = engine.Fail(call.label + ": " + error.what());
    if (operation != nullptr) operation->Abandon();
    return Failed(failure);
  }
}

Result<const PeContext*> FindContext(const LoadedCall& call, int32_t device) {
  const PeContext* context = Runtime::Get().ContextOfDevice(device);
  if (context == nullptr) {
    return Status::Error(call.label + " runs on device " + std::to_string(device) +
                         ", which is not one of this process's PEs");
  }
  return context;
}

Result<ExecutionCounter::Execution> Count(const LoadedCall& call, int pe, ffi::RunId run) {
  Runtime& runtime = Runtime::Get();
  auto counted = runtime.executions().Begin(call.identity.operation, pe, call.executable, run.run_id);
  if (counted.ok()) return counted;
  const Status of_job = runtime.engine().status();
  if (!of_job.ok()) return of_job;
  return runtime.engine().Fail(call.label + ": " + counted.message());
}

}  // namespace xla_shmem
