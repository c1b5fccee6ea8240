// Comparisons, which give predicates, and choices by them.
#include <cmath>
#include <type_traits>

#include "ptx/arithmetic.h"

namespace ptx {
namespace {

template <typename T, typename Function>
uint32_t Bits(const T* a, const T* b, Function function) {
  uint32_t bits = 0;
  for (int lane = 0; lane < kLanes; ++lane) bits |= static_cast<uint32_t>(function(a[lane], b[lane])) << lane;
  return bits;
}

// The comparisons of integers, and the ordered ones of floats.
enum Relation { kEq, kNe, kLt, kLe, kGt, kGe };
template <int kRelation, typename W>
bool Holds(W a, W b) {
  if constexpr (kRelation == kEq) return a == b;
  if constexpr (kRelation == kNe) return a < b || a > b;  // false for NaN
  if constexpr (kRelation == kLt) return a < b;
  if constexpr (kRelation == kLe) return a <= b;
  if constexpr (kRelation == kGt) return a > b;
  if constexpr (kRelation == kGe) return a >= b;
}

enum Combination : uint8_t { kNone, kAnd, kOr, kXor };

// p = result op c, q = !result op c.
void Store(Warp& warp, const Instruction& i, uint32_t result) {
  uint32_t second = ~result;
  if (i.mode != kNone) {
    const uint32_t c = Predicate(warp, i.c) ^ i.flip;
    result = i.mode == kAnd ? result & c : i.mode == kOr ? result | c : result ^ c;
    second = i.mode == kAnd ? second & c : i.mode == kOr ? second | c : second ^ c;
  }
  SetPredicate(warp, i.d, result);
  if (i.d2 != 0) SetPredicate(warp, i.d2, second);
}

template <typename T, int kRelation>
void CompareIntegers(Warp& warp, const Instruction& i) {
  Store(warp, i, Bits(Lane<T>(warp, i.a), Lane<T>(warp, i.b), [](T a, T b) { return Holds<kRelation>(a, b); }));
}

// kOrdered: false if one is NaN; otherwise true.
template <typename T, int kRelation, bool kOrdered, bool kFlush>
void CompareFloats(Warp& warp, const Instruction& i) {
  Store(warp, i, Bits(Lane<T>(warp, i.a), Lane<T>(warp, i.b), [](T x, T y) {
          auto a = Float<T>::Widen(x), b = Float<T>::Widen(y);
          if constexpr (kFlush) a = FlushDenormal(a), b = FlushDenormal(b);
          return Holds<kRelation>(a, b) || (!kOrdered && (a != a || b != b));
        }));
}

template <typename T, bool kNumbers>
void CompareForNan(Warp& warp, const Instruction& i) {
  Store(warp, i, Bits(Lane<T>(warp, i.a), Lane<T>(warp, i.b), [](T x, T y) {
          const auto a = Float<T>::Widen(x), b = Float<T>::Widen(y);
          return (a == a && b == b) == kNumbers;
        }));
}

template <typename T>
Handler IntegerComparison(int relation) {
  constexpr Handler handlers[] = {CompareIntegers<T, kEq>, CompareIntegers<T, kNe>, CompareIntegers<T, kLt>,
                                  CompareIntegers<T, kLe>, CompareIntegers<T, kGt>, CompareIntegers<T, kGe>};
  return handlers[relation];
}

template <typename T, bool kOrdered, bool kFlush>
Handler FloatRelation(int relation) {
  constexpr Handler handlers[] = {CompareFloats<T, kEq, kOrdered, kFlush>, CompareFloats<T, kNe, kOrdered, kFlush>,
                                  CompareFloats<T, kLt, kOrdered, kFlush>, CompareFloats<T, kLe, kOrdered, kFlush>,
                                  CompareFloats<T, kGt, kOrdered, kFlush>, CompareFloats<T, kGe, kOrdered, kFlush>};
  return handlers[relation];
}

template <typename T>
Handler FloatComparison(Decoding& decoding, bool flush) {
  const int ordered = decoding.TakeOneOf({"eq", "ne", "lt", "le", "gt", "ge"});
  const int unordered = ordered >= 0 ? -1 : decoding.TakeOneOf({"equ", "neu", "ltu", "leu", "gtu", "geu"});
  if constexpr (std::is_same_v<T, float>) {
    if (flush && ordered >= 0) return FloatRelation<T, true, true>(ordered);
    if (flush && unordered >= 0) return FloatRelation<T, false, true>(unordered);
  } else if (flush) {
    return nullptr;
  }
  if (ordered >= 0) return FloatRelation<T, true, false>(ordered);
  if (unordered >= 0) return FloatRelation<T, false, false>(unordered);
  const int nan = decoding.TakeOneOf({"num", "nan"});
  return nan == 0 ? CompareForNan<T, true> : nan == 1 ? CompareForNan<T, false> : static_cast<Handler>(nullptr);
}

Handler DecodeSetp(Decoding& decoding) {
  Instruction& i = decoding.instruction();
  const Type type = decoding.TakeType();
  const bool flush = decoding.Take("ftz");
  i.mode = static_cast<uint8_t>(decoding.TakeOneOf({"and", "or", "xor"}) + 1);
  decoding.SecondPredicate(0);
  i.d = decoding.Destination(0, Type::kPred);
  i.a = decoding.Source(1, type);
  i.b = decoding.Source(2, type);
  if (i.mode != kNone) i.c = decoding.NegatablePredicate(3);
  switch (type) {
    case Type::kF32:
      return FloatComparison<float>(decoding, flush);
    case Type::kF64:
      return FloatComparison<double>(decoding, flush);
    case Type::kF16:
      return FloatComparison<F16>(decoding, flush);
    case Type::kBf16:
      return FloatComparison<Bf16>(decoding, flush);
    default:
      break;
  }
  if (flush) return nullptr;
  int relation = decoding.TakeOneOf({"eq", "ne", "lt", "le", "gt", "ge"});
  if (relation < 0 && !IsSigned(type)) {
    const int without_sign = decoding.TakeOneOf({"lo", "ls", "hi", "hs"});
    if (without_sign >= 0) relation = kLt + without_sign;
  }
  if (relation < 0) return nullptr;
  return ForInteger(type, [&](auto tag) -> Handler { return IntegerComparison<typename decltype(tag)::Of>(relation); });
}

template <typename U>
void Select(Warp& warp, const Instruction& i) {
  const uint32_t chosen = Predicate(warp, i.c);
  const U* const a = Lane<U>(warp, i.a);
  const U* const b = Lane<U>(warp, i.b);
  U results[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) results[lane] = (chosen >> lane & 1) != 0 ? a[lane] : b[lane];
  SetLanes(warp, Lane<U>(warp, i.d), results);
}

Handler DecodeSelp(Decoding& decoding) {
  const Type type = decoding.TakeType();
  TakeOperands(decoding, type, 2);
  decoding.instruction().c = decoding.Source(3, Type::kPred);
  if (type == Type::kF16 || type == Type::kBf16) return nullptr;
  return ForUnsigned(type, [](auto tag) -> Handler { return Select<typename decltype(tag)::Of>; });
}

template <typename T, int kClass>
void TestProperty(Warp& warp, const Instruction& i) {
  const T* const a = Lane<T>(warp, i.a);
  Store(warp, i, Bits(a, a, [](T x, T) {
          switch (kClass) {
            case 0:
              return std::isfinite(x);
            case 1:
              return std::isinf(x);
            case 2:
              return !std::isnan(x);
            case 3:
              return std::isnan(x);
            case 4:
              return std::isnormal(x) || x == 0;
            default:
              return std::fpclassify(x) == FP_SUBNORMAL;
          }
        }));
}

template <typename T>
Handler PropertyTest(int property) {
  constexpr Handler handlers[] = {TestProperty<T, 0>, TestProperty<T, 1>, TestProperty<T, 2>,
                                  TestProperty<T, 3>, TestProperty<T, 4>, TestProperty<T, 5>};
  return property < 0 ? nullptr : handlers[property];
}

Handler DecodeTestp(Decoding& decoding) {
  const Type type = decoding.TakeType();
  const int property = decoding.TakeOneOf({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
  decoding.instruction().d = decoding.Destination(0, Type::kPred);
  decoding.instruction().a = decoding.Source(1, type);
  if (type == Type::kF32) return PropertyTest<float>(property);
  return type == Type::kF64 ? PropertyTest<double>(property) : nullptr;
}

}  // namespace

const Opcodes& ComparisonOpcodes() {
  static const Opcodes opcodes = {{"setp", DecodeSetp}, {"selp", DecodeSelp}, {"testp", DecodeTestp}};
  return opcodes;
}

}  // namespace ptx
