#include "xla_patch/thunks/gpu/pair_rings.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "xla_patch/thunks/gpu/message_tag.h"

namespace xla_shmem::gpu {
namespace {

// Puts `pieces` of `buffers` into `slot` at PE `to`, then sets `word` there: one message. The last put carries the
// signal, and NVSHMEM delivers the signal after the data.
void EnqueuePieces(BatchedStream& stream, char* slot, const std::vector<const char*>& buffers,
                   const std::vector<Piece>& pieces, uint64_t* word, uint64_t value, int to) {
  for (const Piece& piece : pieces) {
    char* dest = slot + piece.slot_offset;
    const char* source = buffers[piece.buffer] + piece.buffer_offset;
    if (&piece == &pieces.back()) {
      stream.PutSignal(dest, source, piece.bytes, word, value, to);
    } else {
      stream.Put(dest, source, piece.bytes, to);
    }
  }
}

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

void PairRings::EnqueueCreditWait(int to, size_t ahead, BatchedStream& stream) {
  const uint64_t half = layout_.num_slots() / 2;
  // Messages up to this one may be on their way; it is the last of its half.
  const uint64_t last = ((sent_[to] + ahead) / half + 1) * half;
  uint64_t& awaited = awaited_[to * kSendStreams + SendStream(to, ahead)];
  if (last <= layout_.num_slots() + awaited) return;
  awaited = last - layout_.num_slots();
  uint64_t* credit = Word(layout_.Credit(to));
  stream.WaitAtLeast(credit, awaited);
  Expect({to, /*credit=*/true, credit, 1, 0, awaited, awaited});
}

void PairRings::EnqueueMessage(int to, uint32_t tag, const std::vector<const char*>& buffers,
                               const std::vector<Piece>& pieces, BatchedStream& stream) {
  EnqueueCreditWait(to, /*ahead=*/0, stream);
  const uint64_t message = sent_[to]++;
  EnqueuePieces(stream, arena_ + layout_.Slot(to, pe_, message), buffers, pieces, Word(layout_.Arrived(pe_, message)),
                TaggedWord(tag, message + 1), to);
}

const char* PairRings::EnqueueArrival(int from, uint32_t tag, BatchedStream& stream) {
  const uint64_t message = received_[from]++;
  stream.WaitEqual(Word(layout_.Arrived(from, message)), TaggedWord(tag, message + 1));
  Expect({from, /*credit=*/false, Word(layout_.Arrived(from, 0)), layout_.num_slots(), tag, message + 1, message + 1});
  return arena_ + layout_.Slot(pe_, from, message);
}

void PairRings::EnqueueCredit(int from, BatchedStream& stream) {
  if (received_[from] % (layout_.num_slots() / 2) != 0) return;
  stream.Signal(Word(layout_.Credit(pe_)), received_[from], from);
}

void PairRings::Expect(const Expectation& expectation) {
  for (Expectation& known : expectations_) {
    if (known.words == expectation.words) {
      known.last = std::max(known.last, expectation.last);
      return;
    }
  }
  expectations_.push_back(expectation);
}

LateTransfer PairRings::TakeLateTransfer(const std::string& name) {
  const std::vector<Expectation> expectations = std::exchange(expectations_, {});
  std::string waits;
  for (const Expectation& expected : expectations) {
    waits += (waits.empty() ? "; it waits for PE " : " or PE ") + std::to_string(expected.peer) +
             (expected.credit ? " to consume " : " to put ") + std::to_string(expected.last) + " messages";
  }
  const std::string late = name + " on PE " + std::to_string(pe_) + " has not finished";
  std::string waits_for = late + waits;
  const auto describe = [device = device_, late, waits_for, expectations] {
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
  return {waits_for, describe,
          [device = device_, name, pe = pe_, expectations] { return FindFault(*device, name, pe, expectations); }};
}

}  // namespace xla_shmem::gpu
