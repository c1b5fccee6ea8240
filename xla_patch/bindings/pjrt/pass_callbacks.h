#ifndef XLA_SHMEM_BINDINGS_PJRT_PASS_CALLBACKS_H_
#define XLA_SHMEM_BINDINGS_PJRT_PASS_CALLBACKS_H_

#include "xla_patch/bindings/pjrt/c_api.h"
#include "xla_patch/runtime/pass_hook.h"

namespace xla_shmem::pjrt {

// A PassHook as the callbacks of a PJRT plugin's XlaTransform extension. It must outlive every compilation.
class PassCallbacks {
 public:
  explicit PassCallbacks(PassHook* hook);
  PassCallbacks(const PassCallbacks&) = delete;
  PassCallbacks& operator=(const PassCallbacks&) = delete;

  // For Plugin::RegisterTransform; belongs to this object.
  TransformCallbacks* callbacks() { return &callbacks_.base; }

 private:
  struct Callbacks {
    TransformCallbacks base;  // first, so that XLA's pointer leads back here
    PassHook* hook;
  };

  static void Transform(TransformCallbacks* callbacks, TransformArgs* args);

  Callbacks callbacks_;
};

}  // namespace xla_shmem::pjrt

#endif  // XLA_SHMEM_BINDINGS_PJRT_PASS_CALLBACKS_H_
