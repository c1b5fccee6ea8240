// cvt: between integers and floats of all sizes. Registers may be wider than the types.
#include <cfenv>
#include <cmath>
#include <limits>
#include <type_traits>

#include "ptx/arithmetic.h"

namespace ptx {
namespace {

enum ConversionMode : uint8_t { kSaturate = 1, kToIntegral = 2, kFlush = 4, kRelu = 8 };

template <typename T>
constexpr bool kIsInteger = std::is_integral_v<T>;

// Rounds as the mode that fesetround set.
double Integral(double value) { return std::nearbyint(value); }

// Of a range [0, 1]; NaN becomes 0.
double Clamp01(double value) { return !(value > 0) ? 0.0 : std::fmin(value, 1.0); }

// From double, exact or rounded as the mode that fesetround set.
template <typename To>
To NarrowFromDouble(double value, int rounding) {
  if constexpr (std::is_same_v<To, double>) {
    return value;
  } else if constexpr (std::is_same_v<To, float>) {
    return Float<float>::Narrow(static_cast<float>(value));
  } else {
    // The nearest value first, then one step back if it lies on the wrong side.
    To nearest = Float<To>::Narrow(OddFloat(value));
    if (rounding == FE_TONEAREST || std::isnan(value)) return nearest;
    const double found = To::Widen(nearest);
    const bool toward_zero = rounding == FE_TOWARDZERO;
    if (toward_zero && std::fabs(found) > std::fabs(value)) nearest.bits -= 1;
    return nearest;
  }
}

template <typename To, typename From>
To Converted(From from, uint8_t mode, int rounding) {
  if constexpr (kIsInteger<To> && kIsInteger<From>) {
    if ((mode & kSaturate) == 0) return static_cast<To>(from);
    __extension__ using Wide = __int128;
    const Wide value = from, low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
    return static_cast<To>(value < low ? low : value > high ? high : value);
  } else if constexpr (kIsInteger<From>) {
    // 64 bits have more digits than a double: one rounding to the result.
    if constexpr (std::is_floating_point_v<To>) {
      const To value = static_cast<To>(from);
      return (mode & kSaturate) != 0 ? static_cast<To>(Clamp01(value)) : value;
    } else {
      const float value = OddFloat(static_cast<long double>(from));  // which holds 64 bits
      return Float<To>::Narrow((mode & kSaturate) != 0 ? static_cast<float>(Clamp01(value)) : value);
    }
  } else {
    double value = Float<From>::Widen(from);
    if constexpr (std::is_same_v<From, float>) {
      if ((mode & kFlush) != 0) value = FlushDenormal(static_cast<float>(value));
    }
    if constexpr (kIsInteger<To>) {
      // Out of range gives the nearest integer that there is; NaN gives 0.
      if (std::isnan(value)) return 0;
      value = Integral(value);
      if (value <= static_cast<double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
      if (value >= static_cast<double>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
      return static_cast<To>(value);
    } else {
      if ((mode & kToIntegral) != 0) value = Integral(value);
      if ((mode & kSaturate) != 0) value = Clamp01(value);
      if ((mode & kRelu) != 0 && value < 0) value = 0;
      To result = NarrowFromDouble<To>(value, rounding);
      if constexpr (std::is_same_v<To, float>) {
        if ((mode & kFlush) != 0) result = FlushDenormal(result);
      }
      return result;
    }
  }
}

// Values of 8 bits are in wider registers; they are extended by their sign.
template <typename To, typename From>
void Convert(Warp& warp, const Instruction& i) {
  const bool rounded = i.rounding != FE_TONEAREST;
  if (rounded) fesetround(i.rounding);
  const char* const from = warp.registers + i.a;
  char* const to = warp.registers + i.d;
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((warp.active >> lane & 1) == 0) continue;
    From value;
    memcpy(&value, from + static_cast<size_t>(lane) * i.bytes, sizeof(value));
    const To result = Converted<To>(value, i.mode, i.rounding);
    if constexpr (kIsInteger<To>) {
      using Extended = std::conditional_t<std::is_signed_v<To>, int64_t, uint64_t>;
      const auto extended = static_cast<Extended>(result);
      memcpy(to + static_cast<size_t>(lane) * i.result_bytes, &extended, i.result_bytes);
    } else {
      memcpy(to + static_cast<size_t>(lane) * sizeof(To), &result, sizeof(To));
    }
  }
  if (rounded) fesetround(FE_TONEAREST);
}

// Registers as wide as the types, the usual rounding and no other modifier: a loop without branches.
template <typename To, typename From>
void ConvertPlainly(Warp& warp, const Instruction& i) {
  ForLanes(
      warp, Lane<To>(warp, i.d), [](From value) { return Converted<To>(value, 0, FE_TONEAREST); },
      Lane<From>(warp, i.a));
}

template <typename Function>
Handler ForAny(Type type, Function function) {
  switch (type) {
    case Type::kU8:
    case Type::kB8:
      return function(Tag<uint8_t>());
    case Type::kS8:
      return function(Tag<int8_t>());
    default: {
      const Handler handler = ForInteger(type, function);
      return handler != nullptr ? handler : ForScalarFloat(type, function);
    }
  }
}

// cvt.rn.bf16x2.f32 d, high, low
template <typename T>
void ConvertPair(Warp& warp, const Instruction& i) {
  const bool relu = (i.mode & kRelu) != 0;
  const int rounding = i.rounding;
  ForLanes(
      warp, Lane<Pair<T>>(warp, i.d),
      [=](float high, float low) {
        if (relu) high = high < 0 ? 0 : high, low = low < 0 ? 0 : low;
        return Pair<T>{NarrowFromDouble<T>(low, rounding), NarrowFromDouble<T>(high, rounding)};
      },
      Lane<float>(warp, i.a), Lane<float>(warp, i.b));
}

Handler DecodePair(Decoding& decoding, Type to) {
  Instruction& i = decoding.instruction();
  const int rounding = decoding.TakeRounding();
  i.mode = decoding.Take("relu") ? kRelu : 0;
  i.d = decoding.Destination(0, to);
  i.a = decoding.Source(1, Type::kF32);
  i.b = decoding.Source(2, Type::kF32);
  if (rounding != FE_TONEAREST && rounding != FE_TOWARDZERO) return nullptr;
  return to == Type::kF16x2 ? ConvertPair<F16> : ConvertPair<Bf16>;
}

// ".rni" and the like round to an integer, also where the result is a float.
int TakeIntegralRounding(Decoding& decoding) {
  static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  const int index = decoding.TakeOneOf({"rni", "rzi", "rmi", "rpi"});
  if (index >= 0) decoding.instruction().rounding = modes[index];
  return index;
}

size_t Digits(Type type) { return type == Type::kF64 ? 53 : type == Type::kF32 ? 24 : type == Type::kF16 ? 11 : 8; }

// Whether the instruction must name a rounding; refuses one that is missing, or that it may not have.
void CheckRounding(Decoding& decoding, Type to, Type from, int rounding, int integral) {
  const bool narrowing = IsFloat(to) && (!IsFloat(from) || Digits(to) < Digits(from));
  const bool to_integer = IsFloat(from) && !IsFloat(to);
  if (narrowing && rounding < 0 && integral < 0) decoding.Refuse("it names no rounding");
  if (to_integer && integral < 0) decoding.Refuse("it names no rounding to an integer");
  if (!IsFloat(to) && rounding >= 0) decoding.Refuse("a rounding to an integer is needed");
  if (!IsFloat(from) && integral >= 0) decoding.Refuse("an integer needs no rounding to an integer");
  const bool small = to == Type::kF16 || to == Type::kBf16;
  if (small && rounding > 0 && rounding != FE_TONEAREST && (rounding != FE_TOWARDZERO || !IsFloat(from))) {
    decoding.Refuse("this rounding is not understood");
  }
}

Handler DecodeCvt(Decoding& decoding) {
  Instruction& i = decoding.instruction();
  const Type from = decoding.TakeType();
  const Type to = decoding.TakeType();
  if (to == Type::kF16x2 || to == Type::kBf16x2) return from == Type::kF32 ? DecodePair(decoding, to) : nullptr;
  const int integral = TakeIntegralRounding(decoding);
  const int rounding = decoding.TakeRounding();
  CheckRounding(decoding, to, from, rounding, integral);
  if (decoding.Take("sat")) i.mode |= kSaturate;
  if (decoding.Take("ftz")) i.mode |= kFlush;
  if (decoding.Take("relu")) i.mode |= kRelu;
  if (integral >= 0) i.mode |= kToIntegral;
  if ((i.mode & kFlush) != 0 && from != Type::kF32 && to != Type::kF32) return nullptr;
  if ((i.mode & kRelu) != 0 && (!IsFloat(to) || !IsFloat(from))) return nullptr;
  i.d = decoding.WideDestination(0, to, &i.result_bytes);
  i.a = decoding.WideSource(1, from, &i.bytes);
  if (IsFloat(to) && i.result_bytes != BytesOf(to)) return nullptr;
  const bool plain = (i.mode & ~kToIntegral) == 0 && i.rounding == FE_TONEAREST && i.result_bytes == BytesOf(to) &&
                     i.bytes == BytesOf(from) && (i.mode == 0 || !IsFloat(to));
  return ForAny(to, [&](auto to_tag) -> Handler {
    return ForAny(from, [&](auto from_tag) -> Handler {
      using To = typename decltype(to_tag)::Of;
      using From = typename decltype(from_tag)::Of;
      return plain ? ConvertPlainly<To, From> : Convert<To, From>;
    });
  });
}

}  // namespace

const Opcodes& ConversionOpcodes() {
  static const Opcodes opcodes = {{"cvt", DecodeCvt}};
  return opcodes;
}

}  // namespace ptx
