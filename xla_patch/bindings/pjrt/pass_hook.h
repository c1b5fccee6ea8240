#ifndef XLA_SHMEM_BINDINGS_PJRT_PASS_HOOK_H_
#define XLA_SHMEM_BINDINGS_PJRT_PASS_HOOK_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "xla_patch/bindings/pjrt/c_api.h"
#include "xla_patch/hlo/rewrite/pass.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::pjrt {

// The compiler pass behind a PJRT plugin's XlaTransform callbacks. XLA calls it on any thread, several at once. What
// the pass has to know of the job is only known once devices exist, so the first module asks for it; from then on the
// way from XLA's bytes to XLA's bytes is C++ alone.
class PassHook {
 public:
  // Called on the compiling thread with no lock held; returns "" after SetOptions, or why the job cannot be known.
  using Connect = std::function<std::string()>;
  // Is told of every module with collectives.
  using Observer = std::function<void(std::string_view module, const std::vector<CollectiveRecord>& records)>;

  PassHook();
  PassHook(const PassHook&) = delete;
  PassHook& operator=(const PassHook&) = delete;

  // The one that plugins get to see. Never destroyed: XLA may compile until the process ends.
  static PassHook& Get();

  void SetConnect(Connect connect);
  void SetObserver(Observer observer);
  void SetOptions(PassOptions options);
  // Of the plugin; holds whatever the options say.
  void SetForgetsAliases(bool forgets);
  // Forgets the options, so that the next module asks for them.
  void Reset();

  // For Plugin::RegisterTransform; belongs to this object.
  TransformCallbacks* callbacks() { return &callbacks_.base; }

 private:
  struct Callbacks {
    TransformCallbacks base;  // first, so that XLA's pointer leads back here
    PassHook* hook;
  };

  static void Transform(TransformCallbacks* callbacks, TransformArgs* args);
  Result<PassResult> Run(std::string_view module);
  Result<std::shared_ptr<const PassOptions>> Options();

  Callbacks callbacks_;
  std::mutex mutex_;  // guards what follows
  std::shared_ptr<const PassOptions> options_;
  bool forgets_aliases_ = false;
  Connect connect_;
  Observer observer_;
};

}  // namespace xla_shmem::pjrt

#endif  // XLA_SHMEM_BINDINGS_PJRT_PASS_HOOK_H_
