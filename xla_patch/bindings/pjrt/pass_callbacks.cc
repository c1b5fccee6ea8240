#include "xla_patch/bindings/pjrt/pass_callbacks.h"

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace xla_shmem::pjrt {
namespace {

constexpr int kInternal = 13;  // PJRT_Error_Code_INTERNAL

// Passes `text` to XLA, which returns it through header.cleanup.
Text GiveToXla(std::string text, TransformHeader* header) {
  auto* kept = new std::string(std::move(text));
  header->data = kept;
  header->cleanup = [](void* data) { delete static_cast<std::string*>(data); };
  return {kept->data(), kept->size()};
}

// XLA is built without exceptions.
Result<PassResult> RunWithoutExceptions(PassHook* hook, std::string_view module) {
  try {
    return hook->Run(module);
  } catch (const std::exception& exception) {
    return Status::Error(exception.what());
  }
}

}  // namespace

PassCallbacks::PassCallbacks(PassHook* hook)
    : callbacks_{{kTransformVersion, nullptr, &PassCallbacks::Transform}, hook} {}

void PassCallbacks::Transform(TransformCallbacks* callbacks, TransformArgs* args) {
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
  Result<PassResult> result = RunWithoutExceptions(hook, {args->module.data, args->module.size});
  args->changed = result.ok() && result->changed;
  if (!result.ok()) {
    args->header.has_error = true;
    args->header.code = kInternal;
    args->header.message = GiveToXla("xla_shmem: " + result.message(), &args->header);
  } else if (result->changed) {
    args->transformed = GiveToXla(std::move(result->module), &args->header);
  }
}

}  // namespace xla_shmem::pjrt
