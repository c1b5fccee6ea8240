#include "xla_patch/thunks/gpu/late_transfer.h"

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

std::string LateReplay(const std::string& name, int pe, int peer, bool grant) {
  return IsLate(name, pe) + "; it waits for PE " + std::to_string(peer) + (grant ? " to grant a slot" : " to put") +
         kOption;
}

}  // namespace xla_shmem::gpu
