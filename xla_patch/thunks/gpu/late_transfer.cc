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

Watchdog::Describe DescribeLateTransfer(PairRings& rings, const std::string& name) {
  Device* device = &rings.device();
  return [device, name, pe = rings.pe(), expectations = rings.TakeExpectations()] {
    std::string text = IsLate(name, pe);
    for (const Expectation& expectation : expectations) {
      uint64_t seen = 0;
      if (!device->ReadWord(expectation.word, &seen) || seen >= expectation.value) continue;
      text += "; PE " + std::to_string(expectation.peer) + (expectation.credit ? " has consumed " : " has put ") +
              std::to_string(seen) + " of " + std::to_string(expectation.value) + " messages";
    }
    return text + kOption;
  };
}

Watchdog::Describe DescribeLateReplay(PairRings& rings, const std::string& name, std::vector<int> targets,
                                      std::vector<int> sources) {
  return [&rings, name, targets = std::move(targets), sources = std::move(sources)] {
    std::string waits;
    const auto add = [&](int peer, const uint64_t* word, const char* what) {
      uint64_t seen = 0;
      if (rings.device().ReadWord(word, &seen) && seen == 1) return;
      waits += (waits.empty() ? "; it waits for PE " : " or PE ") + std::to_string(peer) + what;
    };
    for (const int peer : targets) add(peer, rings.OwnReplayWords(peer).grant, " to grant its slot");
    for (const int peer : sources) add(peer, rings.OwnReplayWords(peer).arrived, " to put");
    return IsLate(name, rings.pe()) + waits + kOption;
  };
}

}  // namespace xla_shmem::gpu
