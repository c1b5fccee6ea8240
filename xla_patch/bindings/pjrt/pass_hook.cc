#include "xla_patch/bindings/pjrt/pass_hook.h"

#include <exception>
#include <utility>

namespace xla_shmem::pjrt {
namespace {

constexpr int kInternal = 13;  // PJRT_Error_Code_INTERNAL

// Hands `text` to XLA, which gives it back through header.cleanup.
Text GiveToXla(std::string text, TransformHeader* header) {
  auto* kept = new std::string(std::move(text));
  header->data = kept;
  header->cleanup = [](void* data) { delete static_cast<std::string*>(data); };
  return {kept->data(), kept->size()};
}

}  // namespace

PassHook::PassHook() : callbacks_{{kTransformVersion, nullptr, &PassHook::Transform}, this} {}

PassHook& PassHook::Get() {
  static auto* hook = new PassHook;
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

void PassHook::SetOptions(PassOptions options) {
  const std::lock_guard<std::mutex> lock(mutex_);
  options.copy_aliased_parameters = forgets_aliases_;
  options_ = std::make_shared<const PassOptions>(std::move(options));
}

void PassHook::SetForgetsAliases(bool forgets) {
  const std::lock_guard<std::mutex> lock(mutex_);
  forgets_aliases_ = forgets;
  if (options_ != nullptr) {
    PassOptions options = *options_;
    options.copy_aliased_parameters = forgets;
    options_ = std::make_shared<const PassOptions>(std::move(options));
  }
}

void PassHook::Reset() {
  const std::lock_guard<std::mutex> lock(mutex_);
  options_.reset();
}

void PassHook::Transform(TransformCallbacks* callbacks, TransformArgs* args) {
  if (args->struct_size < XLA_SHMEM_PJRT_SIZE(TransformArgs, changed)) {
    if (args->struct_size >= XLA_SHMEM_PJRT_SIZE(TransformArgs, header)) {
      constexpr std::string_view kMessage = "xla_shmem: the GPU plugin's XlaTransform arguments are too short";
      args->header.has_error = true;
      args->header.code = kInternal;
      args->header.message = {kMessage.data(), kMessage.size()};
    }
    return;
  }
  PassHook* hook = reinterpret_cast<Callbacks*>(callbacks)->hook;
  Result<PassResult> result = hook->Run({args->module.data, args->module.size});
  args->changed = result.ok() && result->changed;
  if (!result.ok()) {
    args->header.has_error = true;
    args->header.code = kInternal;
    args->header.message = GiveToXla("xla_shmem: " + result.message(), &args->header);
  } else if (result->changed) {
    args->transformed = GiveToXla(std::move(result->module), &args->header);
  }
}

Result<PassResult> PassHook::Run(std::string_view module) try {
  const Result<std::shared_ptr<const PassOptions>> options = Options();
  if (!options.ok()) {
    return options.status();
  }
  Result<PassResult> result = RunPass(module, **options);
  if (!result.ok()) {
    return result;
  }
  Observer observer;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    observer = observer_;
  }
  if (observer && !result->records.empty()) {
    observer(module, result->records);
  }
  return result;
} catch (const std::exception& exception) {  // XLA is built without exceptions
  return Status::Error(exception.what());
}

Result<std::shared_ptr<const PassOptions>> PassHook::Options() {
  Connect connect;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (options_ != nullptr) {
      return options_;
    }
    connect = connect_;
  }
  if (!connect) {
    return Status::Error("the compiler pass has not been told about the job's devices");
  }
  if (std::string error = connect(); !error.empty()) {
    return Status::Error(std::move(error));
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (options_ == nullptr) {
    return Status::Error("the job's devices are still not known");
  }
  return options_;
}

}  // namespace xla_shmem::pjrt
