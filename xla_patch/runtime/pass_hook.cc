#include "xla_patch/runtime/pass_hook.h"

#include <utility>

namespace xla_shmem {

PassHook& PassHook::ForCpu() {
  static auto* const hook = new PassHook(Lowering::kCpu);
  return *hook;
}

PassHook& PassHook::ForGpu() {
  static auto* const hook = new PassHook(Lowering::kGpu);
  return *hook;
}

void PassHook::SetConnect(Connect connect) {
  const std::lock_guard<std::mutex> lock(mutex_);
  connect_ = std::move(connect);
}

void PassHook::SetObserver(Observer observer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  observer_ = std::move(observer);
}

void PassHook::SetUnread(Unread unread) {
  const std::lock_guard<std::mutex> lock(mutex_);
  unread_ = std::move(unread);
}

void PassHook::SetOptions(PassOptions options) {
  const std::lock_guard<std::mutex> lock(mutex_);
  options.lowering = lowering_;
  options.copy_aliased_parameters = copies_aliased_parameters_;
  options_ = std::make_shared<const PassOptions>(std::move(options));
}

void PassHook::SetCopiesAliasedParameters(bool copies) {
  const std::lock_guard<std::mutex> lock(mutex_);
  copies_aliased_parameters_ = copies;
  if (options_ != nullptr) {
    PassOptions options = *options_;
    options.copy_aliased_parameters = copies;
    options_ = std::make_shared<const PassOptions>(std::move(options));
  }
}

void PassHook::Reset() {
  const std::lock_guard<std::mutex> lock(mutex_);
  options_.reset();
}

Result<PassResult> PassHook::Run(std::string_view module) {
  const Result<std::shared_ptr<const PassOptions>> options = Options();
  if (!options.ok()) return options.status();
  Result<PassResult> result = RunPass(module, **options);
  Observer observer;
  Unread tell_unread;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    observer = observer_;
    tell_unread = unread_;
  }
  if (!result.ok()) {
    // The same module has the same bytes on all ranks, so all of them leave it on the default backend.
    if (tell_unread) tell_unread(module.size(), result.message());
    PassResult unchanged;
    unchanged.unread = result.message();
    return unchanged;
  }
  if (observer && !result->records.empty()) observer(module, result->records);
  return result;
}

Result<std::shared_ptr<const PassOptions>> PassHook::Options() {
  Connect connect;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (options_ != nullptr) return options_;
    connect = connect_;
  }
  if (!connect) return Status::Error("the compiler pass has not been told about the job's devices");
  XLA_SHMEM_RETURN_IF_ERROR(connect());
  const std::lock_guard<std::mutex> lock(mutex_);
  if (options_ == nullptr) return Status::Error("the job's devices are still not known");
  return options_;
}

}  // namespace xla_shmem
