#include "xla_patch/bindings/ffi/cpu/loaded_call.h"

#include <atomic>
#include <vector>

#include "xla_patch/shm/copy_timer.h"

namespace xla_shmem {
namespace {

namespace ffi = ::xla::ffi;

bool ReadAttributes(ffi::Dictionary attributes, LoadedCall* call, std::string* error) {
  if (!ReadIdentity(attributes, &call->identity, error)) return false;
  if (attributes.contains("reduction") && !ReadReduction(attributes, &call->reduction.emplace(), error)) return false;
  if (attributes.contains("pairs")) return ReadPairs(attributes, &call->pairs.emplace(), error);
  return ReadGroups(attributes, &call->groups.emplace(), error);
}

observe::Site SiteOf(const char* op, const LoadedCall& call) {
  observe::Site site{call.identity.operation, op, call.identity.name, call.pairs.has_value(), {}};
  if (call.groups.has_value()) site.groups = *call.groups;
  for (size_t i = 0; call.pairs.has_value() && i + 1 < call.pairs->size(); i += 2) {
    site.groups.push_back({(*call.pairs)[i], (*call.pairs)[i + 1]});
  }
  return site;
}

// Counts the time its operation spends moving data.
class MeasuredOperation : public Operation {
 public:
  MeasuredOperation(std::unique_ptr<Operation> operation, std::shared_ptr<uint64_t> copied_ns)
      : operation_(std::move(operation)), copied_ns_(std::move(copied_ns)) {}

  bool Poll() override {
    const uint64_t before = shm::CopiedNanoseconds();
    const bool finished = operation_->Poll();
    *copied_ns_ += shm::CopiedNanoseconds() - before;
    return finished;
  }
  void OnSubmit() override { operation_->OnSubmit(); }
  std::string Describe() const override { return operation_->Describe(); }
  bool WaitsFor(int pe) const override { return operation_->WaitsFor(pe); }
  void Abandon() override { operation_->Abandon(); }

 private:
  const std::unique_ptr<Operation> operation_;
  const std::shared_ptr<uint64_t> copied_ns_;
};

}  // namespace

ffi::TypeId LoadedCall::id = XLA_FFI_UNKNOWN_TYPE_ID;

ffi::ErrorOr<std::unique_ptr<LoadedCall>> Load(const char* op, ffi::Dictionary attributes) {
  static std::atomic<uint64_t> loaded{0};
  std::string error;
  if (const Status connected = Runtime::Get().EnsureConnected(); !connected.ok()) {
    error = "an executable with xla-shmem calls cannot be loaded here: " + connected.message();
  }
  if (error.empty()) {
    error = CheckTopology(attributes.get<int64_t>("topology"), Runtime::Get().topology_fingerprint());
  }
  auto call = std::make_unique<LoadedCall>();
  if (!error.empty() || !ReadAttributes(attributes, call.get(), &error)) return ffi::Unexpected(ToError(error));
  call->executable = ++loaded;
  call->site = Runtime::Get().observer().AddSite(SiteOf(op, *call));
  return call;
}

Outcome Failed(const std::string& text) { return {ToError(text), std::nullopt}; }

Outcome Start(const LoadedCall& call, const Execution& execution, std::unique_ptr<Operation> operation) {
  shm::ProgressEngine& engine = Runtime::Get().engine();
  observe::Observer& observer = Runtime::Get().observer();
  std::shared_ptr<uint64_t> copied_ns;
  if (observer.measures_copies()) {
    copied_ns = std::make_shared<uint64_t>(0);
    operation = std::make_unique<MeasuredOperation>(std::move(operation), copied_ns);
  }
  const observe::Observer::Span span = observer.Begin(execution.pe, call.site, execution.number, execution.bytes);
  const Result<bool> finished = engine.TryInline(*operation);
  if (!finished.ok()) return Failed(observer.Fail(span, finished.message()));
  if (*finished) {
    observer.End(span, copied_ns == nullptr ? 0 : *copied_ns, /*is_inline=*/true);
    return {};
  }
  observer.MarkWaiting(span);
  ffi::Promise promise;
  Outcome outcome{std::nullopt, ffi::Future(promise)};
  engine.Submit(std::move(operation), [promise, span, copied_ns, &observer](const Status& status) mutable {
    if (status.ok()) {
      observer.End(span, copied_ns == nullptr ? 0 : *copied_ns, /*is_inline=*/false);
      promise.SetAvailable();
    } else {
      promise.SetError(ToError(observer.Fail(span, status.message())));
    }
  });
  return outcome;
}

const PeContext* FindContext(const LoadedCall& call, int32_t device, std::string* error) {
  const PeContext* context = Runtime::Get().ContextOfDevice(device);
  if (context == nullptr) {
    *error =
        call.identity.name + " runs on device " + std::to_string(device) + ", which is not one of this process's PEs";
  }
  return context;
}

MessageKey NextKey(const LoadedCall& call, int pe, ffi::RunId run) {
  const uint64_t operation = call.identity.operation;
  return {operation, Runtime::Get().executions().Next(operation, pe, call.executable, run.run_id)};
}

}  // namespace xla_shmem
