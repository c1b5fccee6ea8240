#include "xla_patch/thunks/stream/describe.h"

#include <utility>
#include <vector>

namespace xla_shmem::gpu {

Watchdog::Describe DescribeLater(PairRings& rings, const std::string& name) {
  Device* device = &rings.device();
  return [device, name, pe = rings.pe(), expectations = rings.TakeExpectations()] {
    std::string text = name + " on PE " + std::to_string(pe) + " has not finished within the deadline";
    for (const Expectation& expectation : expectations) {
      uint64_t seen = 0;
      if (!device->ReadWord(expectation.word, &seen) || seen >= expectation.value) continue;
      text += "; PE " + std::to_string(expectation.peer) + (expectation.credit ? " has consumed " : " has put ") +
              std::to_string(seen) + " of " + std::to_string(expectation.value) + " messages";
    }
    return text + " (XLA_SHMEM_DEADLINE)";
  };
}

}  // namespace xla_shmem::gpu
