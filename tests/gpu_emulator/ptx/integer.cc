// Integer arithmetic.
#include <limits>
#include <type_traits>

#include "ptx/arithmetic.h"

namespace ptx {
namespace {

// Calculated without a sign, where overflow wraps, and in at least 32 bits, since 16-bit factors would become int.
template <typename T>
using Wrapping = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

struct Add {
  template <typename T>
  static T Of(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};
struct Subtract {
  template <typename T>
  static T Of(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
  }
};
struct Multiply {
  template <typename T>
  static T Of(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};
struct MultiplyAdd {
  template <typename T>
  static T Of(T a, T b, T c) {
    return Add::Of(Multiply::Of(a, b), c);
  }
};

template <typename T>
struct Twice;
template <>
struct Twice<int16_t> {
  using Type = int32_t;
};
template <>
struct Twice<uint16_t> {
  using Type = uint32_t;
};
template <>
struct Twice<int32_t> {
  using Type = int64_t;
};
template <>
struct Twice<uint32_t> {
  using Type = uint64_t;
};
__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;
template <>
struct Twice<int64_t> {
  using Type = Int128;
};
template <>
struct Twice<uint64_t> {
  using Type = Uint128;
};

struct MultiplyHigh {
  template <typename T>
  static T Of(T a, T b) {
    using Wide = typename Twice<T>::Type;
    return static_cast<T>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> (8 * sizeof(T)));
  }
};
struct MultiplyHighAdd {
  template <typename T>
  static T Of(T a, T b, T c) {
    return Add::Of(MultiplyHigh::Of(a, b), c);
  }
};
struct MultiplyWide {
  template <typename T>
  static typename Twice<T>::Type Of(T a, T b) {
    using Wide = typename Twice<T>::Type;
    return static_cast<Wide>(a) * static_cast<Wide>(b);
  }
};
struct MultiplyWideAdd {
  template <typename T>
  static typename Twice<T>::Type Of(T a, T b, typename Twice<T>::Type c) {
    return Add::Of(MultiplyWide::Of(a, b), c);
  }
};

// By zero: all ones, as GPUs do.
struct Divide {
  template <typename T>
  static T Of(T a, T b) {
    if (b == 0) return static_cast<T>(-1);
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return Subtract::Of(static_cast<T>(0), a);
    return static_cast<T>(a / b);
  }
};
struct Remainder {
  template <typename T>
  static T Of(T a, T b) {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
struct Minimum {
  template <typename T>
  static T Of(T a, T b) {
    return b < a ? b : a;
  }
};
struct Maximum {
  template <typename T>
  static T Of(T a, T b) {
    return b > a ? b : a;
  }
};
struct Negate {
  template <typename T>
  static T Of(T a) {
    return Subtract::Of(static_cast<T>(0), a);
  }
};
struct Absolute {
  template <typename T>
  static T Of(T a) {
    return a < 0 ? Negate::Of(a) : a;
  }
};
template <typename Operation>
struct Saturated {
  static int32_t Of(int32_t a, int32_t b) {
    const int64_t exact = Operation::Of(static_cast<int64_t>(a), static_cast<int64_t>(b));
    if (exact < std::numeric_limits<int32_t>::min()) return std::numeric_limits<int32_t>::min();
    return static_cast<int32_t>(exact > std::numeric_limits<int32_t>::max() ? std::numeric_limits<int32_t>::max()
                                                                            : exact);
  }
};

// a + b + carry, or a * b + c + carry; what leaves the top is the new carry.
enum CarryMode : uint8_t { kReadCarry = 1, kWriteCarry = 2, kHighPart = 4, kSubtract = 8 };

template <typename T, bool kProduct>
void WithCarry(Warp& warp, const Instruction& i) {
  using U = std::make_unsigned_t<T>;
  const T* const a = Lane<T>(warp, i.a);
  const T* const b = Lane<T>(warp, i.b);
  const U* const c = Lane<U>(warp, i.c);
  U* const d = Lane<U>(warp, i.d);
  uint32_t carries = 0;
  ForActiveLanes(warp, [&](int lane) {
    U first = static_cast<U>(a[lane]);
    U second = static_cast<U>(b[lane]);
    if (kProduct) {
      first = static_cast<U>((i.mode & kHighPart) != 0 ? MultiplyHigh::Of(a[lane], b[lane])
                                                       : Multiply::Of(a[lane], b[lane]));
      second = c[lane];
    }
    const unsigned carry = (i.mode & kReadCarry) != 0 ? warp.carry >> lane & 1 : 0;
    const bool subtract = (i.mode & kSubtract) != 0;
    const Uint128 sum =
        subtract ? static_cast<Uint128>(first) - second - carry : static_cast<Uint128>(first) + second + carry;
    carries |= static_cast<uint32_t>(sum >> (8 * sizeof(T)) & 1) << lane;
    d[lane] = static_cast<U>(sum);
  });
  if ((i.mode & kWriteCarry) != 0) warp.carry = (warp.carry & ~warp.active) | carries;
}

Handler DecodeCarry(Decoding& decoding, Type type, bool product, uint8_t mode) {
  Instruction& i = decoding.instruction();
  i.mode = mode;
  if (BytesOf(type) < 4) return nullptr;
  TakeOperands(decoding, type, product ? 3 : 2);
  return ForInteger(type, [&](auto tag) -> Handler {
    using T = typename decltype(tag)::Of;
    return product ? WithCarry<T, true> : WithCarry<T, false>;
  });
}

// addc and subc.
template <bool kSubtracts>
Handler DecodeCarried(Decoding& decoding) {
  const Type type = decoding.TakeType();
  const bool writes = decoding.Take("cc");
  return DecodeCarry(decoding, type, false, kReadCarry | (writes ? kWriteCarry : 0) | (kSubtracts ? kSubtract : 0));
}

Handler DecodeMadCarried(Decoding& decoding) {
  const Type type = decoding.TakeType();
  const bool writes = decoding.Take("cc");
  const int part = decoding.TakeOneOf({"lo", "hi"});
  if (part < 0) return nullptr;
  return DecodeCarry(decoding, type, true, kReadCarry | (writes ? kWriteCarry : 0) | (part == 1 ? kHighPart : 0));
}

template <typename Operation>
Handler DecodeSum(Decoding& decoding, Type type, bool subtract) {
  if (decoding.Take("cc")) return DecodeCarry(decoding, type, false, kWriteCarry | (subtract ? kSubtract : 0));
  TakeOperands(decoding, type, 2);
  if (decoding.Take("sat")) {
    return type == Type::kS32 ? Binary<Saturated<Operation>, int32_t, int32_t, int32_t> : static_cast<Handler>(nullptr);
  }
  return ForInteger(type, [](auto tag) -> Handler {
    using T = typename decltype(tag)::Of;
    return Binary<Operation, T, T, T>;
  });
}

Type TwiceAsWide(Type type) { return BytesOf(type) == 2 ? Type::kB32 : Type::kB64; }

Handler DecodeProduct(Decoding& decoding, Type type, bool adds) {
  Instruction& i = decoding.instruction();
  const int part = decoding.TakeOneOf({"lo", "hi", "wide"});
  if (part < 0) return nullptr;
  if (adds && part < 2 && decoding.Take("cc")) {
    return DecodeCarry(decoding, type, true, kWriteCarry | (part == 1 ? kHighPart : 0));
  }
  if (part < 2) {
    TakeOperands(decoding, type, adds ? 3 : 2);
    return ForInteger(type, [&](auto tag) -> Handler {
      using T = typename decltype(tag)::Of;
      if (adds) return part == 0 ? Ternary<MultiplyAdd, T, T, T, T> : Ternary<MultiplyHighAdd, T, T, T, T>;
      return part == 0 ? Binary<Multiply, T, T, T> : Binary<MultiplyHigh, T, T, T>;
    });
  }
  if (BytesOf(type) == 8) return nullptr;
  i.d = decoding.Destination(0, TwiceAsWide(type));
  i.a = decoding.Source(1, type);
  i.b = decoding.Source(2, type);
  if (adds) i.c = decoding.Source(3, TwiceAsWide(type));
  return ForInteger(type, [&](auto tag) -> Handler {
    using T = typename decltype(tag)::Of;
    using Wide = typename Twice<T>::Type;
    if constexpr (sizeof(T) == 8) {
      return nullptr;
    } else {
      return adds ? Ternary<MultiplyWideAdd, Wide, T, T, Wide> : Binary<MultiplyWide, Wide, T, T>;
    }
  });
}

template <typename Operation>
Handler DecodeBinary(Decoding& decoding, Type type) {
  TakeOperands(decoding, type, 2);
  return ForInteger(type, [](auto tag) -> Handler {
    using T = typename decltype(tag)::Of;
    return Binary<Operation, T, T, T>;
  });
}

template <typename Operation>
Handler DecodeUnary(Decoding& decoding, Type type) {
  TakeOperands(decoding, type, 1);
  return ForInteger(type, [](auto tag) -> Handler {
    using T = typename decltype(tag)::Of;
    return Unary<Operation, T, T>;
  });
}

Handler DecodeRemainder(Decoding& decoding) { return DecodeBinary<Remainder>(decoding, decoding.TakeType()); }

}  // namespace

Handler DecodeIntegerArithmetic(Decoding& decoding, Type type) {
  const std::string& opcode = decoding.opcode();
  if (opcode == "add") return DecodeSum<Add>(decoding, type, false);
  if (opcode == "sub") return DecodeSum<Subtract>(decoding, type, true);
  if (opcode == "mul") return DecodeProduct(decoding, type, false);
  if (opcode == "mad") return DecodeProduct(decoding, type, true);
  if (opcode == "div") return DecodeBinary<Divide>(decoding, type);
  if (opcode == "min") return DecodeBinary<Minimum>(decoding, type);
  if (opcode == "max") return DecodeBinary<Maximum>(decoding, type);
  if (opcode == "neg") return IsSigned(type) ? DecodeUnary<Negate>(decoding, type) : nullptr;
  if (opcode == "abs") return IsSigned(type) ? DecodeUnary<Absolute>(decoding, type) : nullptr;
  return nullptr;
}

const Opcodes& IntegerOpcodes() {
  static const Opcodes opcodes = {{"addc", DecodeCarried<false>},
                                  {"subc", DecodeCarried<true>},
                                  {"madc", DecodeMadCarried},
                                  {"rem", DecodeRemainder}};
  return opcodes;
}

const Opcodes& ArithmeticOpcodes() {
  static const DecodeFunction by_type = [](Decoding& decoding) {
    const Type type = decoding.TakeType();
    return IsFloat(type) ? DecodeFloatArithmetic(decoding, type) : DecodeIntegerArithmetic(decoding, type);
  };
  static const Opcodes opcodes = {{"add", by_type}, {"sub", by_type}, {"mul", by_type},
                                  {"mad", by_type}, {"div", by_type}, {"min", by_type},
                                  {"max", by_type}, {"neg", by_type}, {"abs", by_type}};
  return opcodes;
}

}  // namespace ptx
