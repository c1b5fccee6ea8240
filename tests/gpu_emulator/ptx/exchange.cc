// What the lanes of a warp do together: shuffles, votes, reductions, matrices from shared memory.
#include <algorithm>

#include "ptx/access.h"
#include "ptx/decoder.h"

namespace ptx {
namespace {

// What a lane gets that reads from one that does not take part.
constexpr uint32_t kGarbage = 0xdeadbeef;

// Waits for the lanes of the member mask in register `reg`. False if they are not here yet, or with an error.
bool MembersHere(Warp& warp, uint32_t reg) {
  const uint32_t* const masks = Lane<uint32_t>(warp, reg);
  const uint32_t members = masks[__builtin_ctz(warp.active)];
  bool same = true;
  ForActiveLanes(warp, [&](int lane) { same &= masks[lane] == members; });
  if (!same || (warp.active & ~members) != 0) {
    Fail(warp, same ? "a lane outside of the member mask takes part" : "the lanes have different member masks");
    return false;
  }
  return Converged(warp, members & warp.alive);
}

enum ShuffleMode : uint8_t { kUp, kDown, kButterfly, kIndex };

struct Source {
  int lane;
  bool valid;
};

// As the PTX ISA defines it: c holds a clamp (bits 0-4) and a mask of segments (bits 8-12).
template <ShuffleMode kMode>
Source SourceOf(int lane, uint32_t b, uint32_t c) {
  const auto by = static_cast<int>(b & 31);
  const auto clamp = static_cast<int>(c & 31);
  const auto segment = static_cast<int>(c >> 8 & 31);
  const int lowest = lane & segment;
  const int highest = lowest | (clamp & ~segment);
  int from = lowest | (by & ~segment);
  if (kMode == kUp) from = lane - by;
  if (kMode == kDown) from = lane + by;
  if (kMode == kButterfly) from = lane ^ by;
  const bool valid = kMode == kUp ? from >= highest : from <= highest;
  return {valid ? from : lane, valid};
}

template <ShuffleMode kMode>
void Shuffle(Warp& warp, const Instruction& i) {
  if (!MembersHere(warp, i.vector[0])) return;
  const uint32_t* const a = Lane<uint32_t>(warp, i.a);
  const uint32_t* const b = Lane<uint32_t>(warp, i.b);
  const uint32_t* const c = Lane<uint32_t>(warp, i.c);
  uint32_t results[kLanes] = {};
  uint32_t valid = 0;
  ForActiveLanes(warp, [&](int lane) {
    const Source source = SourceOf<kMode>(lane, b[lane], c[lane]);
    const bool takes_part = (warp.active >> source.lane & 1) != 0;
    results[lane] = takes_part ? a[source.lane] : kGarbage;
    valid |= static_cast<uint32_t>(source.valid) << lane;
  });
  SetLanes(warp, Lane<uint32_t>(warp, i.d), results);
  if (i.d2 != 0) SetPredicate(warp, i.d2, valid);
}

Handler DecodeShuffle(Decoding& decoding) {
  Instruction& i = decoding.instruction();
  if (decoding.TakeType() != Type::kB32 || !decoding.Take("sync")) return nullptr;
  const int mode = decoding.TakeOneOf({"up", "down", "bfly", "idx"});
  decoding.SecondPredicate(0);
  i.d = decoding.Destination(0, Type::kB32);
  i.a = decoding.Source(1, Type::kB32);
  i.b = decoding.Source(2, Type::kU32);
  i.c = decoding.Source(3, Type::kU32);
  i.vector = {decoding.Source(4, Type::kU32)};
  constexpr Handler handlers[] = {Shuffle<kUp>, Shuffle<kDown>, Shuffle<kButterfly>, Shuffle<kIndex>};
  return mode < 0 ? nullptr : handlers[mode];
}

enum VoteMode : uint8_t { kAll, kAny, kUniform, kBallot };

void Vote(Warp& warp, const Instruction& i) {
  if (!MembersHere(warp, i.b)) return;
  const uint32_t votes = (Predicate(warp, i.a) ^ i.flip) & warp.active;
  if (i.mode == kBallot) {
    ForActiveLanes(warp, [&](int lane) { Lane<uint32_t>(warp, i.d)[lane] = votes; });
    return;
  }
  const bool all = votes == warp.active, none = votes == 0;
  const bool result = i.mode == kAll ? all : i.mode == kAny ? !none : all || none;
  SetPredicate(warp, i.d, result ? ~0U : 0);
}

Handler DecodeVote(Decoding& decoding) {
  Instruction& i = decoding.instruction();
  const Type type = decoding.TakeType();
  const int mode = decoding.TakeOneOf({"all", "any", "uni", "ballot"});
  if (!decoding.Take("sync") || mode < 0 || type != (mode == kBallot ? Type::kB32 : Type::kPred)) return nullptr;
  i.mode = static_cast<uint8_t>(mode);
  i.d = decoding.Destination(0, type);
  i.a = decoding.NegatablePredicate(1);
  i.b = decoding.Source(2, Type::kU32);
  return Vote;
}

void ActiveMask(Warp& warp, const Instruction& i) {
  ForActiveLanes(warp, [&](int lane) { Lane<uint32_t>(warp, i.d)[lane] = warp.active; });
}

Handler DecodeActiveMask(Decoding& decoding) {
  if (decoding.TakeType() != Type::kB32) return nullptr;
  decoding.instruction().d = decoding.Destination(0, Type::kB32);
  return ActiveMask;
}

struct Add {
  template <typename T>
  static T Of(T a, T b) {
    return static_cast<T>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
  }
};
struct Minimum {
  template <typename T>
  static T Of(T a, T b) {
    return std::min(a, b);
  }
};
struct Maximum {
  template <typename T>
  static T Of(T a, T b) {
    return std::max(a, b);
  }
};
struct And {
  static uint32_t Of(uint32_t a, uint32_t b) { return a & b; }
};
struct Or {
  static uint32_t Of(uint32_t a, uint32_t b) { return a | b; }
};
struct Xor {
  static uint32_t Of(uint32_t a, uint32_t b) { return a ^ b; }
};

template <typename Operation, typename T>
void ReduceLanes(Warp& warp, const Instruction& i) {
  if (!MembersHere(warp, i.b)) return;
  const T* const a = Lane<T>(warp, i.a);
  const int first = __builtin_ctz(warp.active);
  T result = a[first];
  ForActiveLanes(warp, [&](int lane) {
    if (lane != first) result = Operation::Of(result, a[lane]);
  });
  ForActiveLanes(warp, [&](int lane) { Lane<T>(warp, i.d)[lane] = result; });
}

Handler DecodeRedux(Decoding& decoding) {
  Instruction& i = decoding.instruction();
  const Type type = decoding.TakeType();
  if (!decoding.Take("sync") || BytesOf(type) != 4 || IsFloat(type)) return nullptr;
  i.d = decoding.Destination(0, type);
  i.a = decoding.Source(1, type);
  i.b = decoding.Source(2, Type::kU32);
  const int logical = decoding.TakeOneOf({"and", "or", "xor"});
  constexpr Handler bits[] = {ReduceLanes<And, uint32_t>, ReduceLanes<Or, uint32_t>, ReduceLanes<Xor, uint32_t>};
  if (logical >= 0) return type == Type::kB32 ? bits[logical] : nullptr;
  const int number = decoding.TakeOneOf({"add", "min", "max"});
  constexpr Handler with_sign[] = {ReduceLanes<Add, int32_t>, ReduceLanes<Minimum, int32_t>,
                                   ReduceLanes<Maximum, int32_t>};
  constexpr Handler without[] = {ReduceLanes<Add, uint32_t>, ReduceLanes<Minimum, uint32_t>,
                                 ReduceLanes<Maximum, uint32_t>};
  if (number < 0 || type == Type::kB32) return nullptr;
  return IsSigned(type) ? with_sign[number] : without[number];
}

// Matrices of 8x8 values of 16 bits. Lane 8m + r has the address of row r of matrix m; of each matrix a lane gets two
// neighbours of a row, or of a column of the transposed one.
void LoadMatrices(Warp& warp, const Instruction& i) {
  if (!Converged(warp, kAllLanes)) return;
  const size_t count = i.vector.size();
  char* rows[kLanes];
  warp.active = count == 4 ? kAllLanes : (1U << (8 * count)) - 1;
  const bool resolved = Resolve(warp, i, 16, false, rows);
  warp.active = kAllLanes;
  if (!resolved) return;
  uint32_t loaded[4][kLanes];
  for (size_t m = 0; m < count; ++m) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      uint16_t pair[2];
      for (size_t k = 0; k < 2; ++k) {
        const size_t near = lane / 4, far = 2 * (lane % 4) + k;
        const size_t row = i.mode != 0 ? far : near, column = i.mode != 0 ? near : far;
        memcpy(&pair[k], rows[8 * m + row] + 2 * column, 2);
      }
      memcpy(&loaded[m][lane], pair, 4);
    }
  }
  for (size_t m = 0; m < count; ++m) memcpy(Lane<uint32_t>(warp, i.vector[m]), loaded[m], sizeof(loaded[m]));
}

Handler DecodeLoadMatrices(Decoding& decoding) {
  Instruction& i = decoding.instruction();
  if (decoding.TakeType() != Type::kB16) return nullptr;
  if (!decoding.Take("sync") || !decoding.Take("aligned") || !decoding.Take("m8n8")) return nullptr;
  const int count = decoding.TakeOneOf({"x1", "x2", "x4"});
  i.mode = decoding.Take("trans") ? 1 : 0;
  if (TakeAddressSpace(decoding) != Space::kShared || count < 0) return nullptr;
  i.vector = decoding.VectorOf(0, Type::kB32, true);
  if (i.vector.size() != size_t{1} << count) return nullptr;
  decoding.Address(1, Space::kShared);
  return LoadMatrices;
}

}  // namespace

const Opcodes& WarpOpcodes() {
  static const Opcodes opcodes = {{"shfl", DecodeShuffle},
                                  {"vote", DecodeVote},
                                  {"activemask", DecodeActiveMask},
                                  {"redux", DecodeRedux},
                                  {"ldmatrix", DecodeLoadMatrices}};
  return opcodes;
}

}  // namespace ptx
