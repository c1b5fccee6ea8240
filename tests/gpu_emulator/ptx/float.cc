// Floating-point arithmetic. A result that is NaN is the one NaN that GPUs give, except for f64.
#include <cfenv>
#include <cmath>
#include <type_traits>

#include "ptx/arithmetic.h"

namespace ptx {
namespace {

struct Add {
  template <typename W>
  static W Of(W a, W b) {
    return a + b;
  }
};
struct Subtract {
  template <typename W>
  static W Of(W a, W b) {
    return a - b;
  }
};
struct Multiply {
  template <typename W>
  static W Of(W a, W b) {
    return a * b;
  }
};
struct Divide {
  template <typename W>
  static W Of(W a, W b) {
    return a / b;
  }
};
// -0 is less than +0. A number is preferred to NaN, unless kNan: then NaN is the result.
template <bool kMaximum, bool kNan>
struct Extremum {
  template <typename W>
  static W Of(W a, W b) {
    if (a != a || b != b) return kNan || a != a ? (kNan && a != a ? a : b) : a;
    if (a == b) return std::signbit(a) == kMaximum ? b : a;
    return (a < b) == kMaximum ? b : a;
  }
};
struct Fma {
  template <typename W>
  static W Of(W a, W b, W c) {
    return std::fma(a, b, c);
  }
};

template <typename W>
W Saturate(W value) {
  if (!(value > 0)) return 0;  // NaN as well
  return value > 1 ? 1 : value;
}

struct Negate {
  template <typename W>
  static W Of(W a) {
    return -a;
  }
};
struct Absolute {
  template <typename W>
  static W Of(W a) {
    return std::fabs(a);
  }
};
#define PTX_UNARY(Name, expression) \
  struct Name {                     \
    template <typename W>           \
    static W Of(W a) {              \
      return expression;            \
    }                               \
  };
PTX_UNARY(SquareRoot, std::sqrt(a))
PTX_UNARY(ReciprocalSquareRoot, 1 / std::sqrt(a))
PTX_UNARY(Reciprocal, 1 / a)
PTX_UNARY(Sine, std::sin(a))
PTX_UNARY(Cosine, std::cos(a))
PTX_UNARY(Logarithm2, std::log2(a))
PTX_UNARY(Exponential2, std::exp2(a))
PTX_UNARY(HyperbolicTangent, std::tanh(a))
#undef PTX_UNARY

// One value of type T: widened, calculated, narrowed.
template <typename Operation, typename T, bool kFlush, bool kSaturate>
struct Element {
  using Wide = typename Float<T>::Wide;
  static Wide In(T value) {
    const Wide wide = Float<T>::Widen(value);
    if constexpr (kFlush) return FlushDenormal(wide);
    return wide;
  }
  static T Out(Wide value) {
    if constexpr (kFlush) value = FlushDenormal(value);
    if constexpr (kSaturate) value = Saturate(value);
    return Float<T>::Narrow(value);
  }
  template <typename... Values>
  static T Of(Values... values) {
    // A sum with a product of narrow values can have more digits than f32 has room for.
    if constexpr (std::is_same_v<Operation, Fma> && sizeof(T) == 2) {
      return Out(OddFma(static_cast<double>(In(values))...));
    } else {
      return Out(Operation::Of(In(values)...));
    }
  }
  // The product is exact in double; the sum is rounded to odd.
  static float OddFma(double a, double b, double c) {
    const double product = a * b;
    double sum = product + c;
    const double part = sum - product;
    const double error = (product - (sum - part)) + (c - part);
    uint64_t bits;
    memcpy(&bits, &sum, sizeof(bits));
    if (error != 0 && !std::isnan(error) && (bits & 1) == 0) bits += (error > 0) == (sum > 0) ? 1 : -1;
    memcpy(&sum, &bits, sizeof(bits));
    return OddFloat(sum);
  }
};
template <typename Operation, typename T, bool kFlush, bool kSaturate>
struct Element<Operation, Pair<T>, kFlush, kSaturate> {
  using One = Element<Operation, T, kFlush, kSaturate>;
  template <typename... Values>
  static Pair<T> Of(Values... values) {
    return {One::Of(values.low...), One::Of(values.high...)};
  }
};

// The rounding holds for what is loaded and stored between the two calls, which the compiler knows nothing of.
template <Handler kHandler>
void Rounded(Warp& warp, const Instruction& i) {
  fesetround(i.rounding);
  kHandler(warp, i);
  fesetround(FE_TONEAREST);
}

template <typename Operation, typename T, int kSources>
constexpr Handler HandlerOf() {
  if constexpr (kSources == 1) return Unary<Operation, T, T>;
  if constexpr (kSources == 2) return Binary<Operation, T, T, T>;
  if constexpr (kSources == 3) return Ternary<Operation, T, T, T, T>;
}

template <typename Operation, typename T, int kSources, bool kFlush, bool kSaturate>
Handler Choose(bool rounded) {
  constexpr Handler kPlain = HandlerOf<Element<Operation, T, kFlush, kSaturate>, T, kSources>();
  if constexpr (std::is_floating_point_v<T>) {
    if (rounded) return Rounded<kPlain>;
  }
  return rounded ? nullptr : kPlain;
}

// Takes ".ftz" and ".sat" (f32 only) and a rounding.
template <typename Operation, int kSources>
Handler Decode(Decoding& decoding, Type type, bool may_round) {
  const bool flush = decoding.Take("ftz");
  const bool saturate = decoding.Take("sat");
  const int rounding = may_round ? decoding.TakeRounding() : -1;
  const bool rounded = rounding != -1 && rounding != FE_TONEAREST;
  TakeOperands(decoding, type, kSources);
  return ForFloat(type, [&](auto tag) -> Handler {
    using T = typename decltype(tag)::Of;
    if constexpr (std::is_same_v<T, float>) {
      if (flush && saturate) return Choose<Operation, T, kSources, true, true>(rounded);
      if (flush) return Choose<Operation, T, kSources, true, false>(rounded);
    }
    if (flush) return nullptr;
    if (!saturate) return Choose<Operation, T, kSources, false, false>(rounded);
    if constexpr (!std::is_same_v<T, double>) return Choose<Operation, T, kSources, false, true>(rounded);
    return nullptr;
  });
}

template <bool kMaximum>
Handler DecodeExtremum(Decoding& decoding, Type type) {
  if (decoding.Take("NaN")) return Decode<Extremum<kMaximum, true>, 2>(decoding, type, false);
  return Decode<Extremum<kMaximum, false>, 2>(decoding, type, false);
}

// Only the sign changes, also that of NaN.
template <bool kNegate>
struct Sign {
  template <typename U>
  static U Of(U bits) {
    constexpr U kSign = static_cast<U>(U{1} << (8 * sizeof(U) - 1));
    return kNegate ? bits ^ kSign : bits & ~kSign;
  }
};
template <bool kNegate>
struct PairSign {
  static uint32_t Of(uint32_t bits) { return kNegate ? bits ^ 0x80008000 : bits & 0x7fff7fff; }
};

template <bool kNegate>
Handler DecodeSign(Decoding& decoding, Type type) {
  if (decoding.Take("ftz")) {
    TakeOperands(decoding, type, 1);
    using Operation = std::conditional_t<kNegate, Negate, Absolute>;
    return type == Type::kF32 ? Choose<Operation, float, 1, true, false>(false) : nullptr;
  }
  TakeOperands(decoding, type, 1);
  if (type == Type::kF16x2 || type == Type::kBf16x2) return Unary<PairSign<kNegate>, uint32_t, uint32_t>;
  return ForUnsigned(type, [](auto tag) -> Handler {
    using U = typename decltype(tag)::Of;
    return Unary<Sign<kNegate>, U, U>;
  });
}

Handler DecodeFma(Decoding& decoding) { return Decode<Fma, 3>(decoding, decoding.TakeType(), true); }

// What a GPU approximates is exact here, up to the error of the C library.
template <typename Operation>
Handler DecodeApproximation(Decoding& decoding) {
  const Type type = decoding.TakeType();
  const bool approximate = decoding.Take("approx");
  const bool has_exact_form = decoding.opcode() == "sqrt" || decoding.opcode() == "rcp";
  if (!approximate && !has_exact_form) decoding.Refuse("it needs .approx");
  if (!approximate && type != Type::kF32 && type != Type::kF64) return nullptr;
  return Decode<Operation, 1>(decoding, type, !approximate);
}

Handler DecodeDivision(Decoding& decoding, Type type) {
  if (type != Type::kF32 && type != Type::kF64) return nullptr;
  const bool approximate = decoding.TakeOneOf({"approx", "full"}) >= 0;
  return Decode<Divide, 2>(decoding, type, !approximate);
}

template <typename T>
void CopySign(Warp& warp, const Instruction& i) {
  // The sign is that of the first operand.
  ForLanes(
      warp, Lane<T>(warp, i.d), [](T a, T b) { return std::copysign(b, a); }, Lane<T>(warp, i.a), Lane<T>(warp, i.b));
}

Handler DecodeCopySign(Decoding& decoding) {
  const Type type = decoding.TakeType();
  TakeOperands(decoding, type, 2);
  return type == Type::kF32 ? CopySign<float> : type == Type::kF64 ? CopySign<double> : static_cast<Handler>(nullptr);
}

}  // namespace

Handler DecodeFloatArithmetic(Decoding& decoding, Type type) {
  const std::string& opcode = decoding.opcode();
  if (opcode == "add") return Decode<Add, 2>(decoding, type, true);
  if (opcode == "sub") return Decode<Subtract, 2>(decoding, type, true);
  if (opcode == "mul") return Decode<Multiply, 2>(decoding, type, true);
  if (opcode == "mad") return Decode<Fma, 3>(decoding, type, true);
  if (opcode == "div") return DecodeDivision(decoding, type);
  if (opcode == "min") return DecodeExtremum<false>(decoding, type);
  if (opcode == "max") return DecodeExtremum<true>(decoding, type);
  if (opcode == "neg") return DecodeSign<true>(decoding, type);
  if (opcode == "abs") return DecodeSign<false>(decoding, type);
  return nullptr;
}

const Opcodes& FloatOpcodes() {
  static const Opcodes opcodes = {{"fma", DecodeFma},
                                  {"sqrt", DecodeApproximation<SquareRoot>},
                                  {"rsqrt", DecodeApproximation<ReciprocalSquareRoot>},
                                  {"rcp", DecodeApproximation<Reciprocal>},
                                  {"sin", DecodeApproximation<Sine>},
                                  {"cos", DecodeApproximation<Cosine>},
                                  {"lg2", DecodeApproximation<Logarithm2>},
                                  {"ex2", DecodeApproximation<Exponential2>},
                                  {"tanh", DecodeApproximation<HyperbolicTangent>},
                                  {"copysign", DecodeCopySign}};
  return opcodes;
}

}  // namespace ptx
