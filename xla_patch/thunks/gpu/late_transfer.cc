#include "xla_patch/thunks/gpu/late_transfer.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "xla_patch/thunks/gpu/message_tag.h"

namespace xla_shmem::gpu {
namespace {

// How long a read may take: when the transfer is late, and while it is not.
constexpr std::chrono::milliseconds kLateRead{1000};
constexpr std::chrono::milliseconds kEarlyRead{20};

// What `words` say of the messages that an operation expects.
struct Seen {
  uint64_t messages = 0;  // put or consumed so far
  uint32_t other = 0;     // tag of a message that is not of the operation, 0: there is none
};

Seen Judge(const Expectation& expected, const std::vector<uint64_t>& words) {
  if (expected.credit) return {words[0]};
  Seen seen;
  for (const uint64_t word : words) {
    if (word == 0) continue;  // no message yet
    const uint64_t number = NumberNear(expected.last, word);
    seen.messages = std::max(seen.messages, number);
    if (number >= expected.first && number <= expected.last && TagOfWord(word) != expected.tag) {
      seen.other = TagOfWord(word);
    }
  }
  return seen;
}

// Why the operation cannot end, "" if that is not known.
std::string FindFault(Device& device, const std::string& name, int pe, const std::vector<Expectation>& expectations) {
  for (const Expectation& expected : expectations) {
    if (expected.credit) continue;
    const std::vector<uint64_t> words = device.ReadWords(expected.words, expected.count, kEarlyRead);
    if (words.empty()) return "";
    const Seen seen = Judge(expected, words);
    if (seen.other != 0) return DescribeOtherCollective(name, pe, expected.peer, seen.other);
  }
  return "";
}

}  // namespace

LateTransfer DescribeLateTransfer(PairRings& rings, const std::string& name) {
  const std::vector<Expectation> expectations = rings.TakeExpectations();
  std::string waits;
  for (const Expectation& expected : expectations) {
    waits += (waits.empty() ? "; it waits for PE " : " or PE ") + std::to_string(expected.peer) +
             (expected.credit ? " to consume " : " to put ") + std::to_string(expected.last) + " messages";
  }
  const int pe = rings.pe();
  const std::string late = name + " on PE " + std::to_string(pe) + " has not finished";
  std::string waits_for = late + waits;
  Device* device = &rings.device();
  const auto describe = [device, late, waits_for, expectations] {
    std::string counters;
    for (const Expectation& expected : expectations) {
      const std::vector<uint64_t> words = device->ReadWords(expected.words, expected.count, kLateRead);
      if (words.empty()) return waits_for;
      const Seen seen = Judge(expected, words);
      if (seen.messages >= expected.last) continue;
      counters += "; PE " + std::to_string(expected.peer) + (expected.credit ? " has consumed " : " has put ") +
                  std::to_string(seen.messages) + " of " + std::to_string(expected.last) + " messages";
    }
    return late + counters;
  };
  return {waits_for, describe, [device, name, pe, expectations] { return FindFault(*device, name, pe, expectations); }};
}

}  // namespace xla_shmem::gpu
