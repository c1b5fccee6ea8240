#include "xla_patch/thunks/cpu/peer_operations.h"

namespace xla_shmem {

void PeerOperations::Add(const std::vector<PeerOperation>& operations) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto ids = all_.empty() ? std::make_unique<Ids>() : std::make_unique<Ids>(*all_.back());
  for (const auto& [pe, operation, other] : operations) {
    ids->insert_or_assign({operation, pe}, other);
    ids->insert_or_assign({SecondMessage({operation, 0}).operation, pe}, SecondMessage({other, 0}).operation);
  }
  all_.push_back(std::move(ids));
  ids_.store(all_.back().get(), std::memory_order_release);
}

MessageKey PeerOperations::Translate(const Ids& ids, int pe, const MessageKey& key) {
  const auto found = ids.find({key.operation, pe});
  return {found == ids.end() ? key.operation : found->second, key.execution};
}

}  // namespace xla_shmem
