#include "xla_patch/thunks/cpu/slot_stores.h"

#include <algorithm>

namespace xla_shmem {
namespace {

constexpr std::memory_order kRelaxed = std::memory_order_relaxed;

}  // namespace

SlotStores::Choice SlotStores::Next() {
  // A job begins with a trial of each kind. Later the slower one is tried once a period. The first half of a trial is
  // not measured: it finds the slots where the other kind has left them, in memory or in a cache.
  constexpr uint32_t kTrial = 32, kUnlike = 16, kPeriod = 2048;
  // The receiver finds bytes of streaming stores in memory, not in a cache, and pays for what the sender saves. On the
  // EPYC they took a fifth of plain stores' time or more where that made the whole message slower, and a tenth or less
  // where it made it three to seven times as fast.
  constexpr float kWorthIt = 0.143f;
  const uint32_t chunk = chunks_.fetch_add(1, kRelaxed);
  const bool is_trial = chunk < 2 * kTrial || chunk % kPeriod >= kPeriod - kTrial;
  const bool streams =
      chunk < 2 * kTrial ? chunk >= kTrial : is_trial != (streaming_.load(kRelaxed) < kWorthIt * plain_.load(kRelaxed));
  return {streams ? Kind::kStreaming : Kind::kPlain, !is_trial || chunk % kTrial >= kUnlike};
}

void SlotStores::Record(Kind kind, size_t bytes, int64_t nanoseconds) {
  constexpr float kNewest = 0.25f, kMost = 4;  // a thread that lost its core is not a slow store
  std::atomic<float>& lately = kind == Kind::kPlain ? plain_ : streaming_;
  const float before = lately.load(kRelaxed);
  const float now = static_cast<float>(nanoseconds) / static_cast<float>(bytes);
  lately.store(before == 0 ? now : before + kNewest * (std::min(now, kMost * before) - before), kRelaxed);
}

}  // namespace xla_shmem
