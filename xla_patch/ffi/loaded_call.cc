#include "xla_patch/ffi/loaded_call.h"

#include <atomic>

namespace xla_shmem {
namespace {

namespace ffi = ::xla::ffi;

bool ReadAttributes(ffi::Dictionary attributes, LoadedCall* call, std::string* error) {
  if (!ReadIdentity(attributes, &call->identity, error)) return false;
  if (attributes.contains("reduction") && !ReadReduction(attributes, &call->reduction.emplace(), error)) return false;
  if (attributes.contains("pairs")) return ReadPairs(attributes, &call->pairs.emplace(), error);
  return ReadGroups(attributes, &call->groups.emplace(), error);
}

}  // namespace

ffi::TypeId LoadedCall::id = XLA_FFI_UNKNOWN_TYPE_ID;

ffi::ErrorOr<std::unique_ptr<LoadedCall>> Load(ffi::Dictionary attributes) {
  static std::atomic<uint64_t> loaded{0};
  std::string error = Runtime::Get().EnsureConnected();
  if (!error.empty()) error = "an executable with xla-shmem calls cannot be loaded here: " + error;
  if (error.empty()) {
    error = CheckTopology(attributes.get<int64_t>("topology"), Runtime::Get().topology_fingerprint());
  }
  auto call = std::make_unique<LoadedCall>();
  if (!error.empty() || !ReadAttributes(attributes, call.get(), &error)) return ffi::Unexpected(ToError(error));
  call->executable = ++loaded;
  return call;
}

Outcome Failed(const std::string& text) { return {ToError(text), std::nullopt}; }

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
