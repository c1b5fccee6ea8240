// Bits: logic, shifts, permutations and fields.
#include <type_traits>

#include "ptx/arithmetic.h"

namespace ptx {
namespace {

struct And {
  template <typename U>
  static U Of(U a, U b) {
    return a & b;
  }
};
struct Or {
  template <typename U>
  static U Of(U a, U b) {
    return a | b;
  }
};
struct Xor {
  template <typename U>
  static U Of(U a, U b) {
    return a ^ b;
  }
};
struct Not {
  template <typename U>
  static U Of(U a) {
    return static_cast<U>(~a);
  }
};

// A predicate is one word with a bit for each lane.
template <typename Operation>
void PredicateBinary(Warp& warp, const Instruction& i) {
  SetPredicate(warp, i.d, Operation::Of(Predicate(warp, i.a), Predicate(warp, i.b)));
}
void PredicateNot(Warp& warp, const Instruction& i) { SetPredicate(warp, i.d, ~Predicate(warp, i.a)); }

template <typename Operation>
Handler DecodeLogic(Decoding& decoding) {
  const Type type = decoding.TakeType();
  TakeOperands(decoding, type, 2);
  if (type == Type::kPred) return PredicateBinary<Operation>;
  return ForUnsigned(type, [](auto tag) -> Handler {
    using U = typename decltype(tag)::Of;
    return Binary<Operation, U, U, U>;
  });
}

Handler DecodeNot(Decoding& decoding) {
  const Type type = decoding.TakeType();
  TakeOperands(decoding, type, 1);
  if (type == Type::kPred) return PredicateNot;
  return ForUnsigned(type, [](auto tag) -> Handler {
    using U = typename decltype(tag)::Of;
    return Unary<Not, U, U>;
  });
}

// Shifts by the width or more leave zeros, or copies of the sign.
struct ShiftLeft {
  template <typename U>
  static U Of(U a, uint32_t by) {
    return by >= 8 * sizeof(U) ? U{0} : static_cast<U>(static_cast<uint64_t>(a) << by);
  }
};
struct ShiftRight {
  template <typename T>
  static T Of(T a, uint32_t by) {
    if (by >= 8 * sizeof(T)) return std::is_signed_v<T> && a < 0 ? static_cast<T>(-1) : T{0};
    return static_cast<T>(a >> by);
  }
};

void TakeShift(Decoding& decoding, Type type) {
  Instruction& i = decoding.instruction();
  i.d = decoding.Destination(0, type);
  i.a = decoding.Source(1, type);
  i.b = decoding.Source(2, Type::kU32);
}

Handler DecodeShl(Decoding& decoding) {
  const Type type = decoding.TakeType();
  TakeShift(decoding, type);
  return ForUnsigned(type, [](auto tag) -> Handler {
    using U = typename decltype(tag)::Of;
    return Binary<ShiftLeft, U, U, uint32_t>;
  });
}

Handler DecodeShr(Decoding& decoding) {
  const Type type = decoding.TakeType();
  TakeShift(decoding, type);
  return ForInteger(type, [](auto tag) -> Handler {
    using T = typename decltype(tag)::Of;
    return Binary<ShiftRight, T, T, uint32_t>;
  });
}

// The 64 bits (b, a) are shifted; the left shift gives the upper half, the right shift the lower one.
template <bool kLeft, bool kWrap>
struct FunnelShift {
  static uint32_t Of(uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
    const uint32_t by = kWrap ? c & 31 : (c > 32 ? 32 : c);
    return static_cast<uint32_t>(kLeft ? (both << by) >> 32 : both >> by);
  }
};

template <typename Operation>
constexpr Handler kTernary32 = Ternary<Operation, uint32_t, uint32_t, uint32_t, uint32_t>;

Handler DecodeFunnelShift(Decoding& decoding) {
  if (decoding.TakeType() != Type::kB32) return nullptr;
  const int direction = decoding.TakeOneOf({"l", "r"});
  const int mode = decoding.TakeOneOf({"wrap", "clamp"});
  TakeOperands(decoding, Type::kB32, 3);
  if (direction < 0 || mode < 0) return nullptr;
  if (direction == 0) return mode == 0 ? kTernary32<FunnelShift<true, true>> : kTernary32<FunnelShift<true, false>>;
  return mode == 0 ? kTernary32<FunnelShift<false, true>> : kTernary32<FunnelShift<false, false>>;
}

// Each hexadecimal digit of c chooses one of eight bytes, or eight copies of its sign.
struct Permute {
  static uint32_t Of(uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t bytes = static_cast<uint64_t>(b) << 32 | a;
    uint32_t result = 0;
    for (int k = 0; k < 4; ++k) {
      const uint32_t selector = c >> (4 * k) & 15;
      uint32_t byte = static_cast<uint32_t>(bytes >> (8 * (selector & 7))) & 255;
      if ((selector & 8) != 0) byte = (byte & 128) != 0 ? 255 : 0;
      result |= byte << (8 * k);
    }
    return result;
  }
};

Handler DecodePermute(Decoding& decoding) {
  if (decoding.TakeType() != Type::kB32) return nullptr;
  TakeOperands(decoding, Type::kB32, 3);
  return kTernary32<Permute>;
}

// Bit k of the table is the result where a, b and c spell k.
void ThreeInputLogic(Warp& warp, const Instruction& i) {
  const auto table = static_cast<uint32_t>(i.number);
  ForLanes(
      warp, Lane<uint32_t>(warp, i.d),
      [table](uint32_t a, uint32_t b, uint32_t c) {
        uint32_t result = 0;
        for (int k = 0; k < 8; ++k) {
          if ((table >> k & 1) != 0)
            result |= ((k & 4) != 0 ? a : ~a) & ((k & 2) != 0 ? b : ~b) & ((k & 1) != 0 ? c : ~c);
        }
        return result;
      },
      Lane<uint32_t>(warp, i.a), Lane<uint32_t>(warp, i.b), Lane<uint32_t>(warp, i.c));
}

Handler DecodeLop3(Decoding& decoding) {
  if (decoding.TakeType() != Type::kB32) return nullptr;
  TakeOperands(decoding, Type::kB32, 3);
  decoding.instruction().number = decoding.Immediate(4);
  return ThreeInputLogic;
}

struct CountLeadingZeros {
  static uint32_t Of(uint32_t a) { return a == 0 ? 32 : static_cast<uint32_t>(__builtin_clz(a)); }
  static uint32_t Of(uint64_t a) { return a == 0 ? 64 : static_cast<uint32_t>(__builtin_clzll(a)); }
};
struct PopulationCount {
  template <typename U>
  static uint32_t Of(U a) {
    return static_cast<uint32_t>(__builtin_popcountll(a));
  }
};
struct ReverseBits {
  template <typename U>
  static U Of(U a) {
    U result = 0;
    for (size_t k = 0; k < 8 * sizeof(U); ++k) result |= (a >> k & 1) << (8 * sizeof(U) - 1 - k);
    return result;
  }
};
// The highest bit that is one, or that differs from the sign; all ones if there is none.
struct FindHighestBit {
  template <typename T>
  static uint32_t Of(T a) {
    using U = std::make_unsigned_t<T>;
    U bits = static_cast<U>(a);
    if (std::is_signed_v<T> && a < 0) bits = static_cast<U>(~bits);
    return bits == 0 ? ~0U : static_cast<uint32_t>(8 * sizeof(T) - 1) - CountLeadingZeros::Of(bits);
  }
};

bool Is32Or64(Type type) { return BytesOf(type) >= 4 && !IsFloat(type); }

template <typename Operation>
Handler DecodeCount(Decoding& decoding) {
  const Type type = decoding.TakeType();
  Instruction& i = decoding.instruction();
  i.d = decoding.Destination(0, Type::kU32);
  i.a = decoding.Source(1, type);
  if (!Is32Or64(type)) return nullptr;
  return BytesOf(type) == 4 ? Unary<Operation, uint32_t, uint32_t> : Unary<Operation, uint32_t, uint64_t>;
}

Handler DecodeReverse(Decoding& decoding) {
  const Type type = decoding.TakeType();
  TakeOperands(decoding, type, 1);
  if (!Is32Or64(type)) return nullptr;
  return BytesOf(type) == 4 ? Unary<ReverseBits, uint32_t, uint32_t> : Unary<ReverseBits, uint64_t, uint64_t>;
}

Handler DecodeFindHighest(Decoding& decoding) {
  const Type type = decoding.TakeType();
  Instruction& i = decoding.instruction();
  i.d = decoding.Destination(0, Type::kU32);
  i.a = decoding.Source(1, type);
  if (!Is32Or64(type)) return nullptr;
  return ForInteger(type, [](auto tag) -> Handler {
    using T = typename decltype(tag)::Of;
    if constexpr (sizeof(T) >= 4) return Unary<FindHighestBit, uint32_t, T>;
    return nullptr;
  });
}

// The field of `length` bits from bit `from`; beyond the top bit the field has copies of the sign, or zeros.
struct ExtractField {
  template <typename T>
  static T Of(T a, uint32_t b, uint32_t c) {
    using U = std::make_unsigned_t<T>;
    constexpr uint32_t kBits = 8 * sizeof(T);
    const uint32_t from = b & 255, length = c & 255;
    if (length == 0) return 0;
    const T shifted = ShiftRight::Of(a, from);
    if (length >= kBits) return shifted;
    const U mask = static_cast<U>((U{1} << length) - 1);
    const uint32_t top = from + length - 1 < kBits - 1 ? from + length - 1 : kBits - 1;
    const bool negative = std::is_signed_v<T> && (static_cast<U>(a) >> top & 1) != 0;
    return static_cast<T>(negative ? (static_cast<U>(shifted) & mask) | ~mask : static_cast<U>(shifted) & mask);
  }
};

Handler DecodeExtract(Decoding& decoding) {
  const Type type = decoding.TakeType();
  Instruction& i = decoding.instruction();
  TakeShift(decoding, type);
  i.c = decoding.Source(3, Type::kU32);
  if (!Is32Or64(type)) return nullptr;
  return ForInteger(type, [](auto tag) -> Handler {
    using T = typename decltype(tag)::Of;
    if constexpr (sizeof(T) >= 4) return Ternary<ExtractField, T, T, uint32_t, uint32_t>;
    return nullptr;
  });
}

// d is b with a field of `length` bits from bit `from` replaced by the low bits of a.
template <typename U>
void InsertField(Warp& warp, const Instruction& i) {
  const uint32_t* const lengths = Lane<uint32_t>(warp, i.vector[0]);
  const U* const a = Lane<U>(warp, i.a);
  const U* const b = Lane<U>(warp, i.b);
  const uint32_t* const from = Lane<uint32_t>(warp, i.c);
  U results[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint32_t at = from[lane] & 255, length = lengths[lane] & 255;
    const U ones = length >= 8 * sizeof(U) ? static_cast<U>(~U{0}) : static_cast<U>((U{1} << length) - 1);
    const U mask = ShiftLeft::Of(ones, at);
    results[lane] = (b[lane] & ~mask) | (ShiftLeft::Of(a[lane], at) & mask);
  }
  SetLanes(warp, Lane<U>(warp, i.d), results);
}

Handler DecodeInsert(Decoding& decoding) {
  const Type type = decoding.TakeType();
  Instruction& i = decoding.instruction();
  TakeOperands(decoding, type, 2);
  i.c = decoding.Source(3, Type::kU32);
  i.vector = {decoding.Source(4, Type::kU32)};
  return type == Type::kB32   ? InsertField<uint32_t>
         : type == Type::kB64 ? InsertField<uint64_t>
                              : static_cast<Handler>(nullptr);
}

}  // namespace

const Opcodes& LogicOpcodes() {
  static const Opcodes opcodes = {{"and", DecodeLogic<And>},
                                  {"or", DecodeLogic<Or>},
                                  {"xor", DecodeLogic<Xor>},
                                  {"not", DecodeNot},
                                  {"shl", DecodeShl},
                                  {"shr", DecodeShr},
                                  {"shf", DecodeFunnelShift},
                                  {"prmt", DecodePermute},
                                  {"lop3", DecodeLop3},
                                  {"clz", DecodeCount<CountLeadingZeros>},
                                  {"popc", DecodeCount<PopulationCount>},
                                  {"brev", DecodeReverse},
                                  {"bfind", DecodeFindHighest},
                                  {"bfe", DecodeExtract},
                                  {"bfi", DecodeInsert}};
  return opcodes;
}

}  // namespace ptx
