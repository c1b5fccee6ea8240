#include "xla_patch/bindings/pjrt/plugin.h"

#include <utility>

namespace xla_shmem::pjrt {
namespace {

// The extension if the chain has it and its struct has at least `size` bytes; else nullptr.
template <typename T>
const T* Find(const Api* api, ExtensionType type, size_t size) {
  for (const Extension* extension = api->extension_start; extension != nullptr; extension = extension->next) {
    if (extension->struct_size < XLA_SHMEM_PJRT_SIZE(Extension, next)) return nullptr;  // what follows cannot be found
    if (extension->type == type) return extension->struct_size < size ? nullptr : reinterpret_cast<const T*>(extension);
  }
  return nullptr;
}

}  // namespace

Status Plugin::Open(const void* api) {
  const Api* opened = static_cast<const Api*>(api);
  if (opened == nullptr || opened->struct_size < XLA_SHMEM_PJRT_SIZE(Api, error_message)) {
    return Status::Error("the GPU plugin's PJRT API is too small to be one");
  }
  api_ = opened;
  transform_ =
      Find<TransformExtension>(api_, kXlaTransformExtension, XLA_SHMEM_PJRT_SIZE(TransformExtension, clear_transform));
  custom_call_ = Find<CustomCallExtension>(api_, kGpuCustomCallExtension,
                                           XLA_SHMEM_PJRT_SIZE(CustomCallExtension, register_custom_call));
  const auto lacks = [&](const char* extension) {
    return Status::Error("the GPU plugin (PJRT API " + version() + ") has no " + extension +
                         " extension; install jax, jaxlib and the jax-cuda plugin of release 0.10.2 or newer");
  };
  if (transform_ == nullptr || transform_->register_transform == nullptr || transform_->clear_transform == nullptr) {
    return lacks("XlaTransform");
  }
  if (custom_call_ == nullptr || custom_call_->register_custom_call == nullptr) return lacks("custom-call");
  return Status();
}

std::string Plugin::version() const {
  return std::to_string(api_->version.major) + "." + std::to_string(api_->version.minor);
}

Status Plugin::RegisterTransform(const std::string& name, TransformCallbacks* callbacks) const {
  RegisterTransformArgs args{XLA_SHMEM_PJRT_SIZE(RegisterTransformArgs, callbacks), name.data(), name.size(),
                             kPostScheduler, callbacks};
  return ToStatus(transform_->register_transform(&args), "compiler pass " + name);
}

Status Plugin::ClearTransform(const std::string& name) const {
  ClearTransformArgs args{
      XLA_SHMEM_PJRT_SIZE(ClearTransformArgs, cleared), kPostScheduler, name.data(), name.size(), nullptr, false};
  return ToStatus(transform_->clear_transform(&args), "compiler pass " + name);
}

Status Plugin::RegisterHandler(const std::string& target, const HandlerStages& stages) const {
  RegisterCustomCallArgs args{XLA_SHMEM_PJRT_SIZE(RegisterCustomCallArgs, execute),
                              target.data(),
                              target.size(),
                              kTypedFfi,
                              stages.instantiate,
                              stages.prepare,
                              stages.initialize,
                              stages.execute};
  return ToStatus(custom_call_->register_custom_call(&args), "FFI handler " + target);
}

Status Plugin::ToStatus(Error* error, const std::string& what) const {
  if (error == nullptr) return Status();
  ErrorMessageArgs message{XLA_SHMEM_PJRT_SIZE(ErrorMessageArgs, message_size), nullptr, error, nullptr, 0};
  api_->error_message(&message);
  std::string text = what + ": the GPU plugin says: " + std::string(message.message, message.message_size);
  ErrorDestroyArgs destroy{XLA_SHMEM_PJRT_SIZE(ErrorDestroyArgs, error), nullptr, error};
  api_->error_destroy(&destroy);
  return Status::Error(std::move(text));
}

}  // namespace xla_shmem::pjrt
