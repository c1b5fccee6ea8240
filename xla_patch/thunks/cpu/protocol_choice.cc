#include "xla_patch/thunks/cpu/protocol_choice.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <utility>

#include "xla_patch/thunks/cpu/message_sender.h"

namespace xla_shmem {
namespace {

// Bits of a verdict, which always has the last. Above them is the process that owns it, plus one.
constexpr uint32_t kPrefersSlots = 1, kClearly = 2, kFull = 4, kAny = 8;
constexpr int kOwner = 4;

// While there is no verdict each execution is a trial. Then two of so many are: fewer once many ratios have decided,
// and fewer if the other way is clearly slower.
uint64_t TrialPeriod(uint32_t verdict) {
  if (verdict == 0) return 2;
  const bool is_clear = (verdict & kClearly) != 0;
  return (verdict & kFull) == 0 ? (is_clear ? 64 : 16) : (is_clear ? 512 : 64);
}

// The first ratio compares executions that find cold caches and pages without memory.
constexpr size_t kColdTrials = 1;
// A verdict follows once one way has won so many trials more than the other, or has won each of fewer trials clearly
// (a sequential test), or once the window is full.
constexpr int kLead = 6;
constexpr size_t kClearTrials = 4;
// Logarithms. A way that is faster by less than the last does not replace the other, so that ways of equal speed do not
// take turns.
constexpr float kClear = 0.22f, kWorthASwitch = 0.03f;

}  // namespace

size_t ProtocolChoice::Index(CollectiveOp op, size_t bytes) {
  size_t size = 0;
  while (size + 1 < kSizes && bytes >> (size + 1) >= kMinCrossMemoryReadBytes) ++size;
  return static_cast<size_t>(op) * kSizes + size;
}

ProtocolChoice::Decision ProtocolChoice::Decide(CollectiveOp op, size_t bytes, const MessageKey& key) const {
  if (verdicts_ == nullptr) return {};
  const uint32_t verdict = verdicts_[Index(op, bytes)].load(std::memory_order_relaxed);
  // Consecutive executions have consecutive numbers, in a loop and in repeated runs. Ids are hashes, so operations that
  // run once begin anywhere.
  const uint64_t number = key.operation + (key.execution >> 32) + (key.execution & 0xffffffff);
  const uint64_t period = TrialPeriod(verdict);
  if (number % period > 1) return {(verdict & kPrefersSlots) == 0 ? Way::kReads : Way::kSlots, false, false};
  // Reads, slots, slots, reads: neither is always the one that finds the caches as the other has left them.
  const Way way = ((number ^ number / period) & 1) == 0 ? Way::kReads : Way::kSlots;
  return {way, true, verdict == 0 || verdict >> kOwner == owner_};
}

void ProtocolChoice::Record(CollectiveOp op, size_t bytes, Way way, int64_t nanoseconds) {
  const size_t index = Index(op, bytes);
  const auto mine = static_cast<size_t>(way);
  const std::lock_guard<std::mutex> lock(mutex_);
  Trials& trials = trials_[index];
  trials.unpaired[mine] = std::max<int64_t>(nanoseconds, 1);
  if (trials.unpaired[1 - mine] == 0) return;
  const auto times = std::exchange(trials.unpaired, {});
  const auto by = [&](Way which) { return static_cast<float>(times[static_cast<size_t>(which)]); };
  const size_t number = trials.count++;
  if (number < kColdTrials) return;
  trials.ratios[(number - kColdTrials) % kWindow] = std::log(by(Way::kReads) / by(Way::kSlots));
  uint32_t before = verdicts_[index].load(std::memory_order_relaxed);
  const uint32_t verdict = Judge(trials, before);
  if (verdict == 0 || (before != 0 && before >> kOwner != owner_)) return;
  verdicts_[index].compare_exchange_strong(before, verdict | owner_ << kOwner, std::memory_order_relaxed);
}

uint32_t ProtocolChoice::Judge(const Trials& trials, uint32_t before) {
  const size_t total = trials.count - kColdTrials, count = std::min(total, kWindow);
  std::array<float, kWindow> sorted = trials.ratios;
  const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(count);
  std::sort(sorted.begin(), end);
  const auto lost_by_reads =
      static_cast<int>(std::count_if(sorted.begin(), end, [](float ratio) { return ratio > 0; }));
  const bool is_clear = count >= kClearTrials && (sorted.front() > kClear || *(end - 1) < -kClear);
  const bool leads = std::abs(2 * lost_by_reads - static_cast<int>(count)) >= kLead;
  if (before == 0 && !is_clear && !leads && total < kWindow) return 0;
  const float median = sorted[count / 2];
  uint32_t verdict = before & kPrefersSlots;
  if (leads || before == 0) {
    if (median > kWorthASwitch) verdict = kPrefersSlots;
    if (median < -kWorthASwitch) verdict = 0;
  }
  if (std::abs(median) > kClear) verdict |= kClearly;
  if (total >= kWindow) verdict |= kFull;
  return verdict | kAny;
}

}  // namespace xla_shmem
