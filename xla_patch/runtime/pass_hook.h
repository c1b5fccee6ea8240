#ifndef XLA_SHMEM_RUNTIME_PASS_HOOK_H_
#define XLA_SHMEM_RUNTIME_PASS_HOOK_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "xla_patch/hlo/rewrite/pass.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

// The entry of the compiler pass for one platform. XLA calls it on any thread, several at once. The pass needs facts of
// the job that are known only once devices exist, so the first module asks for them. From then on XLA's bytes become
// the pass's bytes in C++ alone.
class PassHook {
 public:
  // Called on the compiling thread with no lock held. It calls SetOptions, or returns why the job cannot be known.
  using Connect = std::function<Status()>;
  // Called for every module with collectives.
  using Observer = std::function<void(std::string_view module, const std::vector<CollectiveRecord>& records)>;
  // Called for a module that the pass cannot read.
  using Unread = std::function<void(size_t num_bytes, const std::string& why)>;

  // `lowering` is that of the platform; it replaces PassOptions::lowering.
  explicit PassHook(Lowering lowering) : lowering_(lowering) {}
  PassHook(const PassHook&) = delete;
  PassHook& operator=(const PassHook&) = delete;

  // The hooks that XLA calls. They are never destroyed: XLA may compile until the process ends.
  static PassHook& ForCpu();
  static PassHook& ForGpu();

  void SetConnect(Connect connect);
  void SetObserver(Observer observer);
  void SetUnread(Unread unread);
  void SetOptions(PassOptions options);
  // Sets PassOptions::copy_aliased_parameters, also of options that are set later.
  void SetCopiesAliasedParameters(bool copies);
  // Drops the options, so that the next module calls Connect.
  void Reset();

  // A module that the pass cannot read comes back unchanged, after a call of Unread. An error means that the job is not
  // known.
  Result<PassResult> Run(std::string_view module);

 private:
  Result<std::shared_ptr<const PassOptions>> Options();

  const Lowering lowering_;
  std::mutex mutex_;  // guards what follows
  std::shared_ptr<const PassOptions> options_;
  bool copies_aliased_parameters_ = false;
  Connect connect_;
  Observer observer_;
  Unread unread_;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_RUNTIME_PASS_HOOK_H_
