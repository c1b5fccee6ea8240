// What other processes call our operations (docs/design.md, "Matching messages").
//
// A process publishes its messages and grants under its own ids. It looks for those of a PE under the ids of that PE,
// which are others if the copies of a program differ.
#ifndef XLA_SHMEM_THUNKS_CPU_PEER_OPERATIONS_H_
#define XLA_SHMEM_THUNKS_CPU_PEER_OPERATIONS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "xla_patch/thunks/cpu/message_key.h"
#include "xla_patch/types/peer_operation.h"

namespace xla_shmem {

class PeerOperations {
 public:
  // Also operations that are under way use the new ids from their next poll on. Thread-safe.
  void Add(const std::vector<PeerOperation>& operations);

  // The key of `pe` for what has `key` here.
  MessageKey KeyOf(int pe, const MessageKey& key) const {
    const Ids* const ids = ids_.load(std::memory_order_acquire);
    return ids == nullptr ? key : Translate(*ids, pe, key);
  }

 private:
  using Ids = std::map<std::pair<uint64_t, int>, uint64_t>;  // operation and PE -> its id there
  static MessageKey Translate(const Ids& ids, int pe, const MessageKey& key);

  std::atomic<const Ids*> ids_{nullptr};  // null as long as all ids are equal
  std::mutex mutex_;
  std::vector<std::unique_ptr<const Ids>> all_;  // the older ones may still be read; guarded by mutex_
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_PEER_OPERATIONS_H_
