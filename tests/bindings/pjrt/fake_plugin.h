#ifndef XLA_SHMEM_TESTS_BINDINGS_PJRT_FAKE_PLUGIN_H_
#define XLA_SHMEM_TESTS_BINDINGS_PJRT_FAKE_PLUGIN_H_

#include <string>
#include <vector>

#include "xla_patch/bindings/pjrt/c_api.h"

namespace xla_shmem::test {

// A plugin's PJRT_Api with the extensions of jax 0.10.2 behind an unknown one. Each test creates its own. The calls
// have no context, so they go to the object that was created last.
class FakePlugin {
 public:
  FakePlugin() {
    last_ = this;
    other_ = {sizeof(other_), 20, &transform_.base};
    transform_ = {
        {sizeof(transform_), pjrt::kXlaTransformExtension, &custom_call_.base}, RegisterTransform, ClearTransform};
    custom_call_ = {{sizeof(custom_call_), pjrt::kGpuCustomCallExtension, nullptr}, RegisterCustomCall};
    api_ = {1144, &other_, {sizeof(pjrt::ApiVersion), nullptr, 0, 112}, DestroyError, GetMessage};
  }
  FakePlugin(const FakePlugin&) = delete;
  FakePlugin& operator=(const FakePlugin&) = delete;

  pjrt::Api& api() { return api_; }
  pjrt::Extension& other() { return other_; }
  pjrt::TransformExtension& transform() { return transform_; }
  pjrt::CustomCallExtension& custom_call() { return custom_call_; }

  // The next calls fail with this.
  void Refuse(const std::string& message) { refusal_ = message; }

  std::vector<std::string> registered;  // names, in order; "-name" for what was cleared
  pjrt::TransformCallbacks* callbacks = nullptr;
  pjrt::RegisterCustomCallArgs handler{};
  int errors_alive = 0;

 private:
  static pjrt::Error* Answer() {
    if (last_->refusal_.empty()) {
      return nullptr;
    }
    ++last_->errors_alive;
    return reinterpret_cast<pjrt::Error*>(&last_->refusal_);
  }
  static pjrt::Error* RegisterTransform(pjrt::RegisterTransformArgs* args) {
    last_->registered.emplace_back(args->name, args->name_size);
    last_->callbacks = args->stage == pjrt::kPostScheduler ? args->callbacks : nullptr;
    return Answer();
  }
  static pjrt::Error* ClearTransform(pjrt::ClearTransformArgs* args) {
    last_->registered.push_back("-" + std::string(args->name, args->name_size));
    args->cleared = true;
    return Answer();
  }
  static pjrt::Error* RegisterCustomCall(pjrt::RegisterCustomCallArgs* args) {
    last_->registered.emplace_back(args->name, args->name_size);
    last_->handler = *args;
    return Answer();
  }
  static void DestroyError(pjrt::ErrorDestroyArgs*) { --last_->errors_alive; }
  static void GetMessage(pjrt::ErrorMessageArgs* args) {
    const auto* message = reinterpret_cast<const std::string*>(args->error);
    args->message = message->data();
    args->message_size = message->size();
  }

  inline static FakePlugin* last_ = nullptr;
  std::string refusal_;
  pjrt::Extension other_{};
  pjrt::TransformExtension transform_{};
  pjrt::CustomCallExtension custom_call_{};
  pjrt::Api api_{};
};

}  // namespace xla_shmem::test

#endif  // XLA_SHMEM_TESTS_BINDINGS_PJRT_FAKE_PLUGIN_H_
