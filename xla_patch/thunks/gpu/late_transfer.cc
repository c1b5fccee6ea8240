#include "xla_patch/thunks/gpu/late_transfer.h"

#include <utility>
#include <vector>

namespace xla_shmem::gpu {
namespace {

std::string IsLate(const std::string& name, int pe) {
  return name + " on PE " + std::to_string(pe) + " has not finished within the deadline";
}

constexpr char kOption[] = " (XLA_SHMEM_DEADLINE)";

}  // namespace

LateTransfer DescribeLateTransfer(PairRings& rings, const std::string& name) {
  const std::vector<Expectation> expectations = rings.TakeExpectations();
  std::string waits;
  for (const Expectation& expectation : expectations) {
    waits += (waits.empty() ? "; it waits for PE " : " or PE ") + std::to_string(expectation.peer) +
             (expectation.credit ? " to consume " : " to put ") + std::to_string(expectation.value) + " messages";
  }
  const std::string late = IsLate(name, rings.pe());
  std::string waits_for = late + waits + kOption;
  Device* device = &rings.device();
  return {waits_for, [device, late, waits_for, expectations] {
            std::string counters;
            for (const Expectation& expectation : expectations) {
              uint64_t seen = 0;
              if (!device->ReadWord(expectation.word, &seen)) return waits_for;
              if (seen >= expectation.value) continue;
              counters += "; PE " + std::to_string(expectation.peer) +
                          (expectation.credit ? " has consumed " : " has put ") + std::to_string(seen) + " of " +
                          std::to_string(expectation.value) + " messages";
            }
            return late + counters + kOption;
          }};
}

LateTransfer DescribeLateReplay(PairRings& rings, const std::string& name, std::vector<int> targets,
                                std::vector<int> sources) {
  // `is_late(word)`: whether the text names the peer of this word.
  const auto text = [&rings, name, targets = std::move(targets), sources = std::move(sources)](auto is_late) {
    std::string waits;
    const auto add = [&](int peer, const uint64_t* word, const char* what) {
      if (!is_late(word)) return;
      waits += (waits.empty() ? "; it waits for PE " : " or PE ") + std::to_string(peer) + what;
    };
    for (const int peer : targets) add(peer, rings.OwnReplayWords(peer).grant, " to grant its slot");
    for (const int peer : sources) add(peer, rings.OwnReplayWords(peer).arrived, " to put");
    return IsLate(name, rings.pe()) + waits + kOption;
  };
  return {text([](const uint64_t*) { return true; }), [&rings, text] {
            return text([&](const uint64_t* word) {
              uint64_t seen = 0;
              return !rings.device().ReadWord(word, &seen) || seen != 1;
            });
          }};
}

}  // namespace xla_shmem::gpu
