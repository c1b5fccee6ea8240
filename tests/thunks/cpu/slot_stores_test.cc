#include "xla_patch/thunks/cpu/slot_stores.h"

#include <doctest/doctest.h>

namespace xla_shmem {
namespace {

using Kind = SlotStores::Kind;
constexpr size_t kBytes = 128 << 10;
constexpr int64_t kLostCore = 4'000'000;
constexpr int kPeriod = 2048, kTrial = 32;

// Chunks take these nanoseconds each, and those of a kind that follow the other kind three times as long.
struct Peer {
  SlotStores stores;
  int64_t plain = 0, streaming = 0;
  int after_change = 0;
  Kind last = Kind::kPlain;

  // Writes so many periods of chunks; returns how many were streamed.
  int Write(int periods) {
    int streamed = 0;
    for (int i = 0; i < periods * kPeriod; ++i) {
      const SlotStores::Choice choice = stores.Next();
      after_change = choice.kind == last ? after_change + 1 : 0;
      last = choice.kind;
      int64_t took = (choice.kind == Kind::kPlain ? plain : streaming) * (after_change < 16 ? 3 : 1);
      if (i % 1000 == 999) took = kLostCore;
      if (choice.is_measured) stores.Record(choice.kind, kBytes, took);
      streamed += choice.kind == Kind::kStreaming ? 1 : 0;
    }
    return streamed;
  }
};

TEST_CASE("Streaming stores must be clearly faster; the other kind is tried; threads lose their core now and then") {
  Peer near, far;
  near.plain = 3500, near.streaming = 2500;
  far.plain = 53000, far.streaming = 5000;
  CHECK(near.Write(10) == 11 * kTrial);
  CHECK(far.Write(10) > 9 * kPeriod);
}

TEST_CASE("After the system has moved a process the other kind is used, within a few periods") {
  Peer peer;
  peer.plain = 3500, peer.streaming = 9000;
  peer.Write(3);
  peer.plain = 53000, peer.streaming = 5000;
  peer.Write(2);
  CHECK(peer.Write(2) > kPeriod);
  peer.plain = 3500, peer.streaming = 9000;
  peer.Write(2);
  CHECK(peer.Write(2) == 2 * kTrial);
}

}  // namespace
}  // namespace xla_shmem
