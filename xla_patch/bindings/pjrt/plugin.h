#ifndef XLA_SHMEM_BINDINGS_PJRT_PLUGIN_H_
#define XLA_SHMEM_BINDINGS_PJRT_PLUGIN_H_

#include <cstdint>
#include <string>

#include "xla_patch/bindings/pjrt/c_api.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::pjrt {

// The stages of one FFI handler; XLA_FFI_Handler* each, nullptr where it has none.
struct HandlerStages {
  void* instantiate = nullptr;
  void* prepare = nullptr;
  void* initialize = nullptr;
  void* execute = nullptr;
};

// A loaded GPU plugin, to register the compiler pass and its handlers with. Registration changes process-wide tables of
// the plugin, so it works before any client exists, and copies of this object mean the same plugin.
class Plugin {
 public:
  // `api`: the plugin's PJRT_Api, which lives as long as the process. Finds the extensions that are needed.
  Status Open(const void* api);

  // "0.112": version of the plugin's C API.
  std::string version() const;

  // Whether XLA drops the aliasing of parameters and results from a module that a transform returns: up to jax 0.10.2,
  // whose API is 0.112.
  bool drops_aliases() const { return api_->version.major == 0 && api_->version.minor < 113; }

  // `callbacks` must never move: a running compilation may use them after ClearTransform.
  Status RegisterTransform(const std::string& name, TransformCallbacks* callbacks) const;
  Status ClearTransform(const std::string& name) const;

  Status RegisterHandler(const std::string& target, const HandlerStages& stages) const;

 private:
  // Destroys `error`, which may be null. `what`: the registration.
  Status ToStatus(Error* error, const std::string& what) const;

  const Api* api_ = nullptr;
  const TransformExtension* transform_ = nullptr;
  const CustomCallExtension* custom_call_ = nullptr;
};

}  // namespace xla_shmem::pjrt

#endif  // XLA_SHMEM_BINDINGS_PJRT_PLUGIN_H_
