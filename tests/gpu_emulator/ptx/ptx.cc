// The interpreter. Every thread of a block runs until it ends or comes to something that other threads must come to as
// well (a barrier, a shuffle); then the next one runs. Blocks run one after the other.
//
// Memory: .global and generic addresses are host pointers; .shared and .local ones are offsets into the block's and the
// thread's memory (compilers compute with them in 32 bits).
#include "ptx.h"

#include <cfenv>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <type_traits>
#include <unordered_map>

namespace ptx {
namespace {

struct Thread;
struct Inst;
using Run = void (*)(Thread&, const Inst&);

struct Inst {
  Run run = nullptr;
  int d = 0, d2 = 0, a = 0, b = 0, c = 0;  // registers; constants are registers too
  int guard = -1;
  bool negated = false;
  int target = -1;     // of a branch
  int space = 0;       // 'g', 's', 'l', 'p', 'c'
  int bytes = 0;       // of one element
  int64_t offset = 0;  // of an address
  uint8_t mode = 0;
  std::vector<int> vector;
  std::string text;  // for errors
};

enum class State : uint8_t { kReady, kBarrier, kWarp, kDone };

struct Block {
  std::vector<char> shared;
  Dim index{};
};

}  // namespace

struct Kernel {
  std::string name;
  struct Parameter {
    size_t offset, bytes;
  };
  std::vector<Parameter> parameters;
  size_t parameter_bytes = 0;
  std::map<std::string, size_t> parameter_offset;
  std::vector<Inst> code;
  std::map<std::string, int> labels;
  std::unordered_map<std::string, int> registers;
  std::vector<std::pair<int, uint64_t>> constants;
  int register_count = 0;
  size_t shared_bytes = 0, local_bytes = 0;
  std::map<std::string, size_t> shared_offset, local_offset;
};
struct Module {
  std::map<std::string, Kernel> kernels;
  struct Global {
    std::vector<char> content;
    char* memory = nullptr;
  };
  std::map<std::string, Global> globals;
  std::map<std::string, std::pair<size_t, size_t>> shared;  // module-level .shared: alignment, bytes (0: dynamic)
};

namespace {

// Special registers have fixed numbers.
enum Special {
  kSink,
  kTidX,
  kTidY,
  kTidZ,
  kNtidX,
  kNtidY,
  kNtidZ,
  kCtaX,
  kCtaY,
  kCtaZ,
  kNctaX,
  kNctaY,
  kNctaZ,
  kLane,
  kWarp,
  kZero,
  kClock,
  kSpecials
};

struct Thread {
  uint64_t* r;
  const Kernel* kernel;
  Block* block;
  const char* parameters;
  char* local;
  int pc = 0;
  State state = State::kReady;
  bool carry = false;
  unsigned number = 0;  // in the block
  const char* error = nullptr;
};

template <typename T>
T Get(const Thread& t, int index) {
  T value;
  memcpy(&value, &t.r[index], sizeof(T));
  return value;
}
template <typename T>
void Set(Thread& t, int index, T value) {
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(T));
  t.r[index] = bits;
}

struct BFloat {
  uint16_t bits;
  operator float() const {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    memcpy(&value, &wide, 4);
    return value;
  }
  static BFloat From(float value) {
    uint32_t wide;
    memcpy(&wide, &value, 4);
    if (std::isnan(value)) return {0x7fff};
    return {static_cast<uint16_t>((wide + 0x7fff + ((wide >> 16) & 1)) >> 16)};
  }
};
using Half = _Float16;

template <typename T>
float Wide(T v) {
  return static_cast<float>(v);
}
template <typename T>
T Narrow(float v) {
  if constexpr (std::is_same_v<T, BFloat>)
    return BFloat::From(v);
  else
    return static_cast<T>(v);
}

template <typename T>
constexpr bool kSmallFloat = std::is_same_v<T, Half> || std::is_same_v<T, BFloat>;
// What a type is calculated in.
template <typename T>
using Calc = std::conditional_t<kSmallFloat<T>, float, T>;
template <typename T>
Calc<T> In(const Thread& t, int i) {
  return static_cast<Calc<T>>(Get<T>(t, i));
}
template <typename T>
void Out(Thread& t, int i, Calc<T> v) {
  if constexpr (kSmallFloat<T>)
    Set<T>(t, i, Narrow<T>(v));
  else
    Set<T>(t, i, v);
}
template <typename T>
constexpr bool kFloating = std::is_floating_point_v<T> || kSmallFloat<T>;

// Rounding: 0 nearest, 1 toward zero, 2 down, 3 up. The calculation sits in a function of its own.
struct Rounding {
  explicit Rounding(int mode) : changed(mode != 0) {
    if (changed) fesetround(mode == 1 ? FE_TOWARDZERO : mode == 2 ? FE_DOWNWARD : FE_UPWARD);
  }
  ~Rounding() {
    if (changed) fesetround(FE_TONEAREST);
  }
  bool changed;
};
template <typename F>
F Saturated(F v, bool saturate) {
  return !saturate ? v : std::isnan(v) ? F(0) : v < 0 ? F(0) : v > 1 ? F(1) : v;
}

#define BINARY(Name, expression)                                                      \
  template <typename T>                                                               \
  struct Name {                                                                       \
    static void Do(Thread& t, const Inst& i) {                                        \
      [[maybe_unused]] const volatile Calc<T> xv = In<T>(t, i.a), yv = In<T>(t, i.b); \
      const Calc<T> x = xv, y = yv;                                                   \
      Out<T>(t, i.d, static_cast<Calc<T>>(expression));                               \
    }                                                                                 \
  };
template <typename T>
using Unsigned = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::common_type<T>>::type;

#define ARITH(Name, op)                                                                       \
  template <typename T>                                                                       \
  struct Name {                                                                               \
    static void Do(Thread& t, const Inst& i) {                                                \
      if constexpr (kFloating<T>) {                                                           \
        const Rounding rounding(i.mode & 3);                                                  \
        const volatile Calc<T> x = In<T>(t, i.a), y = In<T>(t, i.b);                          \
        const volatile Calc<T> z = x op y;                                                    \
        Out<T>(t, i.d, Saturated<Calc<T>>(z, i.mode & 4));                                    \
      } else {                                                                                \
        using U = Unsigned<T>;                                                                \
        Set<U>(t, i.d, static_cast<U>(uint64_t(Get<U>(t, i.a)) op uint64_t(Get<U>(t, i.b)))); \
      }                                                                                       \
    }                                                                                         \
  };
ARITH(Add, +)
ARITH(Sub, -)
ARITH(Mul, *)
BINARY(Div, (kFloating<T> ? x / y : (y == 0 ? Calc<T>(-1) : x / y)))
template <typename T>
struct Rem {
  static void Do(Thread& t, const Inst& i) {
    const T x = Get<T>(t, i.a), y = Get<T>(t, i.b);
    Set<T>(t, i.d, y == 0 || (std::is_signed_v<T> && y == T(-1)) ? (y == 0 ? x : T(0)) : T(x % y));
  }
};
template <typename T, bool kMin>
void MinMaxDo(Thread& t, const Inst& i) {
  const Calc<T> x = In<T>(t, i.a), y = In<T>(t, i.b);
  if constexpr (kFloating<T>) {
    if (std::isnan(x) || std::isnan(y)) {
      const bool both = std::isnan(x) && std::isnan(y);
      Out<T>(t, i.d, (i.mode & 8) != 0 || both ? Calc<T>(NAN) : std::isnan(x) ? y : x);
      return;
    }
    if (x == y) {  // -0 < +0
      Out<T>(t, i.d, std::signbit(x) == kMin ? x : y);
      return;
    }
  }
  Out<T>(t, i.d, (x < y) == kMin ? x : y);
}
template <typename T>
struct Min {
  static void Do(Thread& t, const Inst& i) { MinMaxDo<T, true>(t, i); }
};
template <typename T>
struct Max {
  static void Do(Thread& t, const Inst& i) { MinMaxDo<T, false>(t, i); }
};
BINARY(And, x& y)
BINARY(Or, x | y)
BINARY(Xor, x ^ y)
template <typename T>
struct Shl {
  static void Do(Thread& t, const Inst& i) {
    const uint32_t by = Get<uint32_t>(t, i.b);
    using U = Unsigned<T>;
    Set<U>(t, i.d, by >= 8 * sizeof(T) ? U(0) : U(uint64_t(Get<U>(t, i.a)) << by));
  }
};
template <typename T>
struct Shr {
  static void Do(Thread& t, const Inst& i) {
    uint32_t by = Get<uint32_t>(t, i.b);
    const T x = Get<T>(t, i.a);
    if (by >= 8 * sizeof(T))
      Set<T>(t, i.d, std::is_signed_v<T> && x < 0 ? T(-1) : T(0));
    else
      Set<T>(t, i.d, T(x >> by));
  }
};
template <typename T>
struct MulHi {
  static void Do(Thread& t, const Inst& i) {
    using Big = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
    Set<T>(t, i.d, T((Big(Get<T>(t, i.a)) * Big(Get<T>(t, i.b))) >> (8 * sizeof(T))));
  }
};
template <typename T>
struct Twice;
template <>
struct Twice<int16_t> {
  using type = int32_t;
};
template <>
struct Twice<uint16_t> {
  using type = uint32_t;
};
template <>
struct Twice<int32_t> {
  using type = int64_t;
};
template <>
struct Twice<uint32_t> {
  using type = uint64_t;
};
template <>
struct Twice<int64_t> {
  using type = int64_t;
};
template <>
struct Twice<uint64_t> {
  using type = uint64_t;
};
template <typename T>
struct MulWide {
  static void Do(Thread& t, const Inst& i) {
    using W = typename Twice<T>::type;
    Set<W>(t, i.d, W(Get<T>(t, i.a)) * W(Get<T>(t, i.b)));
  }
};
template <typename T>
struct MadWide {
  static void Do(Thread& t, const Inst& i) {
    using W = typename Twice<T>::type;
    Set<W>(t, i.d, W(Get<T>(t, i.a)) * W(Get<T>(t, i.b)) + Get<W>(t, i.c));
  }
};
// mode: 1 hi, 16 set carry, 32 add carry
template <typename T>
struct Mad {
  static void Do(Thread& t, const Inst& i) {
    using U = Unsigned<T>;
    using Big = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
    const Big product = Big(Get<T>(t, i.a)) * Big(Get<T>(t, i.b));
    const U part = U(i.mode & 1 ? product >> (8 * sizeof(T)) : product);
    const unsigned __int128 sum = (unsigned __int128)part + Get<U>(t, i.c) + ((i.mode & 32) && t.carry ? 1 : 0);
    if (i.mode & 16) t.carry = (sum >> (8 * sizeof(T))) != 0;
    Set<U>(t, i.d, U(sum));
  }
};
template <typename T>
struct AddCarry {
  static void Do(Thread& t, const Inst& i) {
    using U = Unsigned<T>;
    const unsigned __int128 sum =
        (unsigned __int128)Get<U>(t, i.a) + Get<U>(t, i.b) + ((i.mode & 32) && t.carry ? 1 : 0);
    if (i.mode & 16) t.carry = (sum >> (8 * sizeof(T))) != 0;
    Set<U>(t, i.d, U(sum));
  }
};
template <typename T>
struct SubCarry {
  static void Do(Thread& t, const Inst& i) {
    using U = Unsigned<T>;
    const __int128 difference = (__int128)Get<U>(t, i.a) - Get<U>(t, i.b) - ((i.mode & 32) && t.carry ? 1 : 0);
    if (i.mode & 16) t.carry = difference < 0;
    Set<U>(t, i.d, U(difference));
  }
};
template <typename T>
struct Fma {
  static void Do(Thread& t, const Inst& i) {
    const Rounding rounding(i.mode & 3);
    const volatile Calc<T> x = In<T>(t, i.a), y = In<T>(t, i.b), z = In<T>(t, i.c);
    volatile Calc<T> result;
    if constexpr (kSmallFloat<T>)
      result = static_cast<float>(static_cast<double>(x) * y + z);
    else
      result = std::fma(Calc<T>(x), Calc<T>(y), Calc<T>(z));
    Calc<T> out = Saturated<Calc<T>>(result, i.mode & 4);
    if ((i.mode & 64) && out < 0) out = 0;  // .relu
    Out<T>(t, i.d, out);
  }
};
// Two in one register.
template <typename T>
struct FmaPair {
  static void Do(Thread& t, const Inst& i) {
    T a[2], b[2], c[2], d[2];
    memcpy(a, &t.r[i.a], 4), memcpy(b, &t.r[i.b], 4), memcpy(c, &t.r[i.c], 4);
    for (int k = 0; k < 2; ++k)
      d[k] = Narrow<T>(static_cast<float>(static_cast<double>(Wide(a[k])) * Wide(b[k]) + Wide(c[k])));
    t.r[i.d] = 0;
    memcpy(&t.r[i.d], d, 4);
  }
};
template <typename T, int kOp>
void PairDo(Thread& t, const Inst& i) {
  T a[2], b[2], d[2];
  memcpy(a, &t.r[i.a], 4), memcpy(b, &t.r[i.b], 4);
  for (int k = 0; k < 2; ++k) {
    const float x = Wide(a[k]), y = Wide(b[k]);
    const float z = kOp == 0                                           ? x + y
                    : kOp == 1                                         ? x - y
                    : kOp == 2                                         ? x * y
                    : (i.mode & 8) && (std::isnan(x) || std::isnan(y)) ? NAN
                    : kOp == 3                                         ? std::fmin(x, y)
                                                                       : std::fmax(x, y);
    d[k] = Narrow<T>(z);
  }
  t.r[i.d] = 0;
  memcpy(&t.r[i.d], d, 4);
}
#define UNARY(Name, expression)                         \
  template <typename T>                                 \
  struct Name {                                         \
    static void Do(Thread& t, const Inst& i) {          \
      const Calc<T> x = In<T>(t, i.a);                  \
      Out<T>(t, i.d, static_cast<Calc<T>>(expression)); \
    }                                                   \
  };
UNARY(Neg, -x)
UNARY(Not, ~x)
UNARY(AbsInt, (x < 0 ? -x : x))
UNARY(AbsFloat, std::fabs(x))
UNARY(Sqrt, std::sqrt(x))
UNARY(Rsqrt, Calc<T>(1) / std::sqrt(x))
UNARY(Rcp, Calc<T>(1) / x)
UNARY(Sin, std::sin(x))
UNARY(Cos, std::cos(x))
UNARY(Lg2, std::log2(x))
UNARY(Ex2, std::exp2(x))
UNARY(Tanh, std::tanh(x))
BINARY(CopySign, std::copysign(y, x))
void NotPred(Thread& t, const Inst& i) { t.r[i.d] = !t.r[i.a]; }
template <typename T>
struct Clz {
  static void Do(Thread& t, const Inst& i) {
    const uint64_t x = Get<Unsigned<T>>(t, i.a);
    Set<uint32_t>(t, i.d, x == 0 ? 8 * sizeof(T) : __builtin_clzll(x) - (64 - 8 * sizeof(T)));
  }
};
template <typename T>
struct Popc {
  static void Do(Thread& t, const Inst& i) { Set<uint32_t>(t, i.d, __builtin_popcountll(Get<Unsigned<T>>(t, i.a))); }
};
template <typename T>
struct Brev {
  static void Do(Thread& t, const Inst& i) {
    const uint64_t x = Get<Unsigned<T>>(t, i.a);
    uint64_t y = 0;
    for (size_t k = 0; k < 8 * sizeof(T); ++k) y |= ((x >> k) & 1) << (8 * sizeof(T) - 1 - k);
    Set<Unsigned<T>>(t, i.d, static_cast<Unsigned<T>>(y));
  }
};
template <typename T>
struct Bfe {
  static void Do(Thread& t, const Inst& i) {
    const uint32_t from = Get<uint32_t>(t, i.b) & 255, bits = Get<uint32_t>(t, i.c) & 255;
    using U = Unsigned<T>;
    uint64_t x = Get<U>(t, i.a);
    if (std::is_signed_v<T>) x = static_cast<uint64_t>(static_cast<int64_t>(Get<T>(t, i.a)));
    x = from >= 64 ? 0 : x >> from;
    if (bits < 64) x &= (1ULL << bits) - 1;
    if (std::is_signed_v<T> && bits > 0 && bits < 64 && ((x >> (bits - 1)) & 1)) x |= ~0ULL << bits;
    Set<U>(t, i.d, static_cast<U>(x));
  }
};
void Prmt(Thread& t, const Inst& i) {
  const uint64_t bytes = Get<uint32_t>(t, i.a) | static_cast<uint64_t>(Get<uint32_t>(t, i.b)) << 32;
  const uint32_t selector = Get<uint32_t>(t, i.c);
  uint32_t result = 0;
  for (int k = 0; k < 4; ++k) {
    const uint32_t s = (selector >> (4 * k)) & 15;
    uint32_t byte = (bytes >> (8 * (s & 7))) & 255;
    if (s & 8) byte = byte & 128 ? 255 : 0;
    result |= byte << (8 * k);
  }
  Set<uint32_t>(t, i.d, result);
}
void Lop3(Thread& t, const Inst& i) {
  const uint32_t a = Get<uint32_t>(t, i.a), b = Get<uint32_t>(t, i.b), c = Get<uint32_t>(t, i.c);
  const uint32_t table = static_cast<uint32_t>(i.offset);
  uint32_t result = 0;
  for (int k = 0; k < 8; ++k) {
    if (table & (1U << k)) result |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
  }
  Set<uint32_t>(t, i.d, result);
}
void Shf(Thread& t, const Inst& i) {  // mode 1: left, 2: wrap
  const uint64_t x = Get<uint32_t>(t, i.a) | static_cast<uint64_t>(Get<uint32_t>(t, i.b)) << 32;
  uint32_t by = Get<uint32_t>(t, i.c);
  by = i.mode & 2 ? by & 31 : by > 32 ? 32 : by;
  Set<uint32_t>(t, i.d, static_cast<uint32_t>(i.mode & 1 ? (x << by) >> 32 : x >> by));
}
void Mov(Thread& t, const Inst& i) { t.r[i.d] = t.r[i.a]; }
void Pack(Thread& t, const Inst& i) {
  uint64_t value = 0;
  for (size_t k = 0; k < i.vector.size(); ++k) {
    const uint64_t mask = i.bytes >= 8 ? ~0ULL : (1ULL << (8 * i.bytes)) - 1;
    value |= (t.r[i.vector[k]] & mask) << (8 * i.bytes * k);
  }
  t.r[i.d] = value;
}
void Unpack(Thread& t, const Inst& i) {
  const uint64_t value = t.r[i.a], mask = (1ULL << (8 * i.bytes)) - 1;
  for (size_t k = 0; k < i.vector.size(); ++k) t.r[i.vector[k]] = (value >> (8 * i.bytes * k)) & mask;
}
template <typename T>
struct Selp {
  static void Do(Thread& t, const Inst& i) { Set<T>(t, i.d, Get<T>(t, t.r[i.c] ? i.a : i.b)); }
};
enum Compare { kEq, kNe, kLt, kLe, kGt, kGe, kEqu, kNeu, kLtu, kLeu, kGtu, kGeu, kNum, kNan };
template <typename T>
struct Setp {
  static void Do(Thread& t, const Inst& i) {
    const Calc<T> x = In<T>(t, i.a), y = In<T>(t, i.b);
    bool result = false, unordered = false;
    if constexpr (kFloating<T>) unordered = std::isnan(x) || std::isnan(y);
    switch (i.mode & 15) {
      case kEq:
        result = x == y;
        break;
      case kNe:
        result = x != y && !unordered;
        break;
      case kLt:
        result = x < y;
        break;
      case kLe:
        result = x <= y;
        break;
      case kGt:
        result = x > y;
        break;
      case kGe:
        result = x >= y;
        break;
      case kEqu:
        result = x == y || unordered;
        break;
      case kNeu:
        result = x != y || unordered;
        break;
      case kLtu:
        result = x < y || unordered;
        break;
      case kLeu:
        result = x <= y || unordered;
        break;
      case kGtu:
        result = x > y || unordered;
        break;
      case kGeu:
        result = x >= y || unordered;
        break;
      case kNum:
        result = !unordered;
        break;
      default:
        result = unordered;
        break;
    }
    bool other = !result;
    if (i.mode & 0x70) {
      const bool p = t.r[i.c] != 0;
      const int op = i.mode >> 4;
      result = op == 1 ? result && p : op == 2 ? result || p : result != p;
      other = op == 1 ? other && p : op == 2 ? other || p : other != p;
    }
    t.r[i.d] = result;
    if (i.d2 != kSink) t.r[i.d2] = other;
  }
};

// cvt: through a wide integer or a double.
template <typename From>
auto Widened(const Thread& t, int index) {
  if constexpr (kFloating<From>)
    return static_cast<double>(In<From>(t, index));
  else
    return Get<From>(t, index);
}
// mode: 0-3 rounding of a result that is a float; 8-11 rounding to an integer (n z m p); 4 sat
template <typename To, typename From>
void CvtDo(Thread& t, const Inst& i) {
  const auto x = Widened<From>(t, i.a);
  if constexpr (kFloating<To>) {
    if constexpr (kFloating<From>) {
      double v = x;
      if (i.mode & 8)
        v = (i.mode & 3) == 0   ? std::nearbyint(v)
            : (i.mode & 3) == 1 ? std::trunc(v)
            : (i.mode & 3) == 2 ? std::floor(v)
                                : std::ceil(v);
      const Rounding rounding(i.mode & 8 ? 0 : i.mode & 3);
      const volatile double before = v;
      const volatile Calc<To> after = static_cast<Calc<To>>(before);
      Calc<To> out = Saturated<Calc<To>>(after, i.mode & 4);
      if ((i.mode & 64) && out < 0) out = 0;
      Out<To>(t, i.d, out);
    } else {
      const Rounding rounding(i.mode & 3);
      const volatile From before = x;
      Out<To>(t, i.d, static_cast<Calc<To>>(before));
    }
  } else if constexpr (kFloating<From>) {
    double v = x;
    v = (i.mode & 3) == 0 && (i.mode & 8) ? std::nearbyint(v)
        : (i.mode & 3) == 2               ? std::floor(v)
        : (i.mode & 3) == 3               ? std::ceil(v)
                                          : std::trunc(v);
    if (std::isnan(v)) return Set<To>(t, i.d, To(0));
    if (v <= static_cast<double>(std::numeric_limits<To>::min()))
      return Set<To>(t, i.d, std::numeric_limits<To>::min());
    if (v >= static_cast<double>(std::numeric_limits<To>::max()))
      return Set<To>(t, i.d, std::numeric_limits<To>::max());
    Set<To>(t, i.d, static_cast<To>(v));
  } else {
    if (i.mode & 4) {
      const __int128 v = x, low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
      return Set<To>(t, i.d, static_cast<To>(v < low ? low : v > high ? high : v));
    }
    Set<To>(t, i.d, static_cast<To>(x));
    if constexpr (std::is_signed_v<To>) t.r[i.d] = static_cast<uint64_t>(static_cast<int64_t>(Get<To>(t, i.d)));
  }
}
template <typename T>
void CvtPair(Thread& t, const Inst& i) {  // cvt.rn.bf16x2.f32 d, high, low
  T d[2] = {Narrow<T>(Get<float>(t, i.b)), Narrow<T>(Get<float>(t, i.a))};
  if (i.mode & 64)
    for (T& v : d)
      if (Wide(v) < 0) v = Narrow<T>(0.0f);
  t.r[i.d] = 0;
  memcpy(&t.r[i.d], d, 4);
}

// Memory.
char* Place(Thread& t, const Inst& i, int space) {
  const uint64_t address = t.r[i.a] + static_cast<uint64_t>(i.offset);
  switch (space) {
    case 's': {
      const uint32_t at = static_cast<uint32_t>(address);
      if (at >= t.block->shared.size()) {
        t.error = "shared address out of range";
        return nullptr;
      }
      return t.block->shared.data() + at;
    }
    case 'l':
      return t.local + static_cast<uint32_t>(address);
    case 'p':
      return const_cast<char*>(t.parameters) + address;
    default:
      return reinterpret_cast<char*>(address);
  }
}
template <int kBytes>
uint64_t Fetch(const char* from) {
  uint64_t value = 0;
  memcpy(&value, from, kBytes);
  return value;
}
// mode 1: sign-extend
void Load(Thread& t, const Inst& i) {
  const char* from = Place(t, i, i.space);
  if (from == nullptr) return;
  const auto one = [&](int d, const char* at) {
    uint64_t v = i.bytes == 4 ? Fetch<4>(at) : i.bytes == 8 ? Fetch<8>(at) : i.bytes == 2 ? Fetch<2>(at) : Fetch<1>(at);
    if (i.mode & 1)
      v = static_cast<uint64_t>(i.bytes == 4   ? int64_t(int32_t(v))
                                : i.bytes == 2 ? int64_t(int16_t(v))
                                : i.bytes == 1 ? int64_t(int8_t(v))
                                               : int64_t(v));
    t.r[d] = v;
  };
  if (i.vector.empty()) {
    if (i.bytes == 4 && (i.mode & 2))
      t.r[i.d] = __atomic_load_n(reinterpret_cast<const uint32_t*>(from), __ATOMIC_ACQUIRE);
    else if (i.bytes == 8 && (i.mode & 2))
      t.r[i.d] = __atomic_load_n(reinterpret_cast<const uint64_t*>(from), __ATOMIC_ACQUIRE);
    else
      one(i.d, from);
    return;
  }
  for (size_t k = 0; k < i.vector.size(); ++k) one(i.vector[k], from + k * i.bytes);
}
void Store(Thread& t, const Inst& i) {
  char* to = Place(t, i, i.space);
  if (to == nullptr) return;
  if (i.vector.empty()) {
    if (i.bytes == 4 && (i.mode & 2))
      __atomic_store_n(reinterpret_cast<uint32_t*>(to), Get<uint32_t>(t, i.b), __ATOMIC_RELEASE);
    else if (i.bytes == 8 && (i.mode & 2))
      __atomic_store_n(reinterpret_cast<uint64_t*>(to), t.r[i.b], __ATOMIC_RELEASE);
    else
      memcpy(to, &t.r[i.b], i.bytes);
    return;
  }
  for (size_t k = 0; k < i.vector.size(); ++k) memcpy(to + k * i.bytes, &t.r[i.vector[k]], i.bytes);
}
enum Atomic { kAtomAdd, kAtomExch, kAtomCas, kAtomMin, kAtomMax, kAtomAnd, kAtomOr, kAtomXor };
template <typename T>
struct Atom {  // d old, [a], b, c
  static void Do(Thread& t, const Inst& i) {
    char* at = Place(t, i, i.space);
    if (at == nullptr) return;
    using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
    auto* word = reinterpret_cast<Bits*>(at);
    Bits old = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    for (;;) {
      T value;
      memcpy(&value, &old, sizeof(T));
      const Calc<T> x = static_cast<Calc<T>>(value), y = In<T>(t, i.b);
      Calc<T> z = y;
      switch (i.mode) {
        case kAtomAdd:
          z = x + y;
          break;
        case kAtomExch:
          z = y;
          break;
        case kAtomCas:
          z = old == Get<Bits>(t, i.b) ? In<T>(t, i.c) : x;
          break;
        case kAtomMin:
          z = y < x ? y : x;
          break;
        case kAtomMax:
          z = y > x ? y : x;
          break;
        default:
          if constexpr (std::is_integral_v<T>) z = i.mode == kAtomAnd ? x & y : i.mode == kAtomOr ? x | y : x ^ y;
      }
      T narrow;
      if constexpr (kSmallFloat<T>)
        narrow = Narrow<T>(z);
      else
        narrow = z;
      Bits next;
      memcpy(&next, &narrow, sizeof(T));
      if (__atomic_compare_exchange_n(word, &old, next, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) break;
    }
    t.r[i.d] = old;
  }
};
void CvtaTo(Thread& t, const Inst& i) {  // generic -> window
  const uint64_t x = t.r[i.a];
  t.r[i.d] = i.space == 's'   ? x - reinterpret_cast<uint64_t>(t.block->shared.data())
             : i.space == 'l' ? x - reinterpret_cast<uint64_t>(t.local)
                              : x;
}
void CvtaFrom(Thread& t, const Inst& i) {
  const uint64_t x = t.r[i.a];
  t.r[i.d] = i.space == 's'   ? x + reinterpret_cast<uint64_t>(t.block->shared.data())
             : i.space == 'l' ? x + reinterpret_cast<uint64_t>(t.local)
             : i.space == 'p' ? x + reinterpret_cast<uint64_t>(t.parameters)
                              : x;
}

// Control.
void Branch(Thread& t, const Inst& i) { t.pc = i.target; }
void Return(Thread& t, const Inst&) { t.state = State::kDone; }
void Nothing(Thread&, const Inst&) {}
void Fence(Thread&, const Inst&) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void Barrier(Thread& t, const Inst&) { t.state = State::kBarrier; }
void WarpSync(Thread& t, const Inst&) { t.state = State::kWarp; }
void Trap(Thread& t, const Inst&) { t.error = "trap"; }
void Unknown(Thread& t, const Inst& i) { t.error = i.text.c_str(); }
void ActiveMask(Thread& t, const Inst& i) { Set<uint32_t>(t, i.d, ~0U); }

// What a warp does together: mode 0 shfl up, 1 down, 2 bfly, 3 idx, 4 vote.ballot, 5 any, 6 all, 7 nothing, 8 ldmatrix.
void Together(Thread* lanes, int count, const Inst& i) {
  if (i.mode <= 3) {
    uint32_t source[32];
    for (int lane = 0; lane < count; ++lane) source[lane] = Get<uint32_t>(lanes[lane], i.a);
    for (int lane = 0; lane < count; ++lane) {
      Thread& t = lanes[lane];
      if (t.state != State::kWarp) continue;
      const uint32_t b = Get<uint32_t>(t, i.b) & 31, c = Get<uint32_t>(t, i.c);
      const uint32_t clamp = c & 31, segment = (c >> 8) & 31;
      const uint32_t low = lane & segment, high = low | (clamp & ~segment);
      int from = i.mode == 0   ? lane - static_cast<int>(b)
                 : i.mode == 1 ? lane + static_cast<int>(b)
                 : i.mode == 2 ? static_cast<int>(lane ^ b)
                               : static_cast<int>(low | (b & ~segment));
      const bool inside = i.mode == 0 ? from >= static_cast<int>(high) : from <= static_cast<int>(high);
      if (!inside || from >= count) from = lane;
      Set<uint32_t>(t, i.d, source[from]);
      if (i.d2 != kSink) t.r[i.d2] = inside;
    }
  } else if (i.mode <= 6) {
    uint32_t ballot = 0, here = 0;
    for (int lane = 0; lane < count; ++lane) {
      if (lanes[lane].state != State::kWarp) continue;
      here |= 1U << lane;
      if ((lanes[lane].r[i.a] != 0) != i.space) ballot |= 1U << lane;
    }
    for (int lane = 0; lane < count; ++lane) {
      Thread& t = lanes[lane];
      if (t.state == State::kWarp) t.r[i.d] = i.mode == 4 ? ballot : i.mode == 5 ? ballot != 0 : ballot == here;
    }
  } else if (i.mode == 8) {  // rows of 16 bytes; lane l gets words of row l/4
    const int matrices = static_cast<int>(i.vector.size());
    uint32_t out[32][4];
    for (int m = 0; m < matrices; ++m) {
      for (int lane = 0; lane < count; ++lane) {
        Thread& owner = lanes[m * 8 + lane / 4];
        const char* row = Place(owner, i, 's');
        if (row == nullptr) return;
        memcpy(&out[lane][m], row + 4 * (lane % 4), 4);
      }
    }
    for (int lane = 0; lane < count; ++lane) {
      for (int m = 0; m < matrices; ++m) Set<uint32_t>(lanes[lane], i.vector[m], out[lane][m]);
    }
  }
  for (int lane = 0; lane < count; ++lane) {
    if (lanes[lane].state == State::kWarp) lanes[lane].state = State::kReady;
  }
}

// ------------------------------------------------------------------------------------------------------------ decoding
template <template <typename> class H>
Run PickInt(const std::string& t) {
  if (t == "s16") return H<int16_t>::Do;
  if (t == "u16" || t == "b16") return H<uint16_t>::Do;
  if (t == "s32") return H<int32_t>::Do;
  if (t == "u32" || t == "b32") return H<uint32_t>::Do;
  if (t == "s64") return H<int64_t>::Do;
  if (t == "u64" || t == "b64") return H<uint64_t>::Do;
  return nullptr;
}
template <template <typename> class H>
Run PickFloat(const std::string& t) {
  if (t == "f32") return H<float>::Do;
  if (t == "f64") return H<double>::Do;
  if (t == "f16") return H<Half>::Do;
  if (t == "bf16") return H<BFloat>::Do;
  return nullptr;
}
template <template <typename> class H>
Run PickAny(const std::string& t) {
  const Run run = PickInt<H>(t);
  return run != nullptr ? run : PickFloat<H>(t);
}
template <typename To>
Run PickCvtFrom(const std::string& t) {
  if (t == "s8") return CvtDo<To, int8_t>;
  if (t == "u8") return CvtDo<To, uint8_t>;
  if (t == "s16") return CvtDo<To, int16_t>;
  if (t == "u16") return CvtDo<To, uint16_t>;
  if (t == "s32") return CvtDo<To, int32_t>;
  if (t == "u32") return CvtDo<To, uint32_t>;
  if (t == "s64") return CvtDo<To, int64_t>;
  if (t == "u64") return CvtDo<To, uint64_t>;
  if (t == "f16") return CvtDo<To, Half>;
  if (t == "bf16") return CvtDo<To, BFloat>;
  if (t == "f32") return CvtDo<To, float>;
  if (t == "f64") return CvtDo<To, double>;
  return nullptr;
}
Run PickCvt(const std::string& to, const std::string& from) {
  if (to == "s8") return PickCvtFrom<int8_t>(from);
  if (to == "u8") return PickCvtFrom<uint8_t>(from);
  if (to == "s16") return PickCvtFrom<int16_t>(from);
  if (to == "u16") return PickCvtFrom<uint16_t>(from);
  if (to == "s32") return PickCvtFrom<int32_t>(from);
  if (to == "u32") return PickCvtFrom<uint32_t>(from);
  if (to == "s64") return PickCvtFrom<int64_t>(from);
  if (to == "u64") return PickCvtFrom<uint64_t>(from);
  if (to == "f16") return PickCvtFrom<Half>(from);
  if (to == "bf16") return PickCvtFrom<BFloat>(from);
  if (to == "f32") return PickCvtFrom<float>(from);
  if (to == "f64") return PickCvtFrom<double>(from);
  return nullptr;
}

std::string Trim(const std::string& s) {
  const size_t from = s.find_first_not_of(" \t\r\n");
  return from == std::string::npos ? "" : s.substr(from, s.find_last_not_of(" \t\r\n") - from + 1);
}
std::vector<std::string> Split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  for (const char c : text) {
    depth += (c == '{' || c == '[' || c == '(') - (c == '}' || c == ']' || c == ')');
    if (c == at && depth == 0)
      parts.push_back(Trim(part)), part.clear();
    else
      part += c;
  }
  if (!Trim(part).empty()) parts.push_back(Trim(part));
  return parts;
}
int BytesOf(const std::string& type) {
  if (type == "pred") return 1;
  const size_t digits = type.find_first_of("0123456789");
  int bits = digits == std::string::npos ? 0 : atoi(type.c_str() + digits);
  if (type.find("x2") != std::string::npos) bits *= 2;
  return bits / 8;
}

class Decoder {
 public:
  Decoder(Module* module, Kernel* kernel) : module_(module), kernel_(kernel) {
    static const char* const names[] = {"_",         "%tid.x",   "%tid.y",   "%tid.z",   "%ntid.x",   "%ntid.y",
                                        "%ntid.z",   "%ctaid.x", "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y",
                                        "%nctaid.z", "%laneid",  "%warpid",  "%zero",    "%clock"};
    for (int k = 0; k < kSpecials; ++k) kernel_->registers[names[k]] = k;
    kernel_->register_count = kSpecials;
  }

  void Statement(const std::string& statement) {
    std::string text = Trim(statement);
    if (text.empty()) return;
    if (text[0] == '.') return Declaration(text);
    Inst inst;
    inst.text = text;
    if (text[0] == '@') {
      const size_t end = text.find_first_of(" \t\n");
      std::string guard = text.substr(1, end - 1);
      inst.negated = guard[0] == '!';
      inst.guard = Register(inst.negated ? guard.substr(1) : guard);
      text = Trim(text.substr(end));
    }
    const size_t end = text.find_first_of(" \t\n");
    const std::string opcode = text.substr(0, end);
    operands_ = Split(end == std::string::npos ? "" : text.substr(end), ',');
    words_ = Split(opcode, '.');
    inst.run = nullptr;
    Decode(&inst);
    if (inst.run == nullptr) inst.run = Unknown;
    kernel_->code.push_back(std::move(inst));
  }
  void Label(const std::string& name) { kernel_->labels[name] = static_cast<int>(kernel_->code.size()); }
  void Finish() {
    Inst end;
    end.run = Return;
    kernel_->code.push_back(end);
    for (auto& [index, label] : branches_) {
      const auto at = kernel_->labels.find(label);
      if (at == kernel_->labels.end())
        kernel_->code[index].run = Unknown;
      else
        kernel_->code[index].target = at->second;
    }
  }

 private:
  void Declaration(const std::string& text) {
    if (text.rfind(".shared", 0) == 0 || text.rfind(".local", 0) == 0) {
      size_t align = 1, bytes = 0;
      std::string name;
      Variable(text, &align, &bytes, &name);
      const bool shared = text[1] == 's';
      size_t& used = shared ? kernel_->shared_bytes : kernel_->local_bytes;
      used = (used + align - 1) / align * align;
      (shared ? kernel_->shared_offset : kernel_->local_offset)[name] = used;
      used += bytes;
    }
  }

 public:
  static void Variable(const std::string& text, size_t* align, size_t* bytes, std::string* name) {
    const size_t a = text.find(".align");
    if (a != std::string::npos) *align = strtoul(text.c_str() + a + 6, nullptr, 10);
    const std::string head = Trim(text.substr(0, text.find('=')));
    const size_t bracket = head.find('[');
    const std::string left = Trim(head.substr(0, bracket));
    const size_t space = left.find_last_of(" \t");
    *name = left.substr(space + 1);
    const std::vector<std::string> words = Split(left.substr(0, space), ' ');
    int element = 1;
    for (const std::string& word : words) {
      if (word.size() > 2 && word[0] == '.' && strchr("bsuf", word[1]) != nullptr && isdigit(word[2]))
        element = BytesOf(word.substr(1));
    }
    size_t count = 1;
    if (bracket != std::string::npos) count = strtoul(head.c_str() + bracket + 1, nullptr, 10);
    *bytes = count * element;
    if (*align == 1) *align = element;
  }

 private:
  int Register(const std::string& name) {
    std::string key = name == "%laneid" ? "%laneid" : name;
    const auto at = kernel_->registers.find(key);
    if (at != kernel_->registers.end()) return at->second;
    return kernel_->registers[key] = kernel_->register_count++;
  }
  int Constant(uint64_t bits) {
    for (const auto& [index, value] : kernel_->constants) {
      if (value == bits) return index;
    }
    kernel_->constants.emplace_back(kernel_->register_count, bits);
    return kernel_->register_count++;
  }
  // A register, a number, or the address of a variable. `type` tells how to read floating-point numbers.
  int Value(std::string text) {
    text = Trim(text);
    if (text.empty()) return kSink;
    if (text[0] == '%' || text == "_") return Register(text);
    if (text.rfind("0f", 0) == 0 || text.rfind("0F", 0) == 0) return Constant(strtoul(text.c_str() + 2, nullptr, 16));
    if (text.rfind("0d", 0) == 0 || text.rfind("0D", 0) == 0) return Constant(strtoull(text.c_str() + 2, nullptr, 16));
    if (isdigit(text[0]) || text[0] == '-') {
      return Constant(text[0] == '-' ? static_cast<uint64_t>(strtoll(text.c_str(), nullptr, 0))
                                     : strtoull(text.c_str(), nullptr, 0));
    }
    uint64_t address = 0;
    if (AddressOf(text, &address)) return Constant(address);
    if (text == "true" || text == "false") return Constant(text == "true");
    failed_ = true;
    return kSink;
  }
  bool AddressOf(const std::string& name, uint64_t* address) {
    if (const auto at = kernel_->shared_offset.find(name); at != kernel_->shared_offset.end())
      return *address = at->second, true;
    if (const auto at = kernel_->local_offset.find(name); at != kernel_->local_offset.end())
      return *address = at->second, true;
    if (const auto at = kernel_->parameter_offset.find(name); at != kernel_->parameter_offset.end())
      return *address = at->second, true;
    if (const auto at = module_->globals.find(name); at != module_->globals.end()) {
      return *address = reinterpret_cast<uint64_t>(at->second.memory), true;
    }
    if (const auto at = module_->shared.find(name); at != module_->shared.end()) {
      // Dynamic ones lie behind all that has a size, at an offset that the first use fixes.
      size_t& used = kernel_->shared_bytes;
      const size_t align = at->second.second == 0 ? 1024 : at->second.first;
      used = (used + align - 1) / align * align;
      kernel_->shared_offset[name] = used;
      *address = used;
      used += at->second.second;
      return true;
    }
    return false;
  }
  // "[%rd1+4]", "[name]"
  void Memory(Inst* inst, const std::string& text) {
    std::string inside = Trim(text.substr(1, text.find(']') - 1));
    size_t plus = inside.find('+', 1);
    std::string base = Trim(inside.substr(0, plus));
    if (plus != std::string::npos) inst->offset = strtoll(inside.c_str() + plus + 1, nullptr, 0);
    if (base[0] == '%') {
      inst->a = Register(base);
    } else if (isdigit(base[0])) {
      inst->a = kZero, inst->offset = strtoll(base.c_str(), nullptr, 0);
    } else {
      uint64_t address = 0;
      if (!AddressOf(base, &address)) failed_ = true;
      inst->a = kZero;
      inst->offset += static_cast<int64_t>(address);
    }
  }
  bool Has(const char* word) const {
    for (const std::string& w : words_) {
      if (w == word) return true;
    }
    return false;
  }
  std::vector<int> Vector(const std::string& text) {
    std::vector<int> list;
    for (const std::string& part : Split(text.substr(1, text.rfind('}') - 1), ',')) list.push_back(Value(part));
    return list;
  }
  void Abc(Inst* inst) {
    const auto& o = operands_;
    if (!o.empty()) {
      const size_t bar = o[0].find('|');
      inst->d = Value(o[0].substr(0, bar));
      if (bar != std::string::npos) inst->d2 = Value(o[0].substr(bar + 1));
    }
    if (o.size() > 1 && o[1][0] != '[' && o[1][0] != '{') inst->a = Value(o[1]);
    if (o.size() > 2) inst->b = Value(o[2]);
    if (o.size() > 3) inst->c = Value(o[3]);
  }
  int Space() const {
    for (const std::string& w : words_) {
      if (w.rfind("global", 0) == 0) return 'g';
      if (w.rfind("shared", 0) == 0) return 's';
      if (w == "local") return 'l';
      if (w.rfind("param", 0) == 0) return 'p';
      if (w == "const") return 'g';
    }
    return 'g';
  }

  void Decode(Inst* inst) {
    const std::string& op = words_[0];
    const std::string type = words_.back();
    failed_ = false;
    if (op == "bra") {
      branches_.emplace_back(kernel_->code.size(), operands_[0]);
      inst->run = Branch;
      return;
    }
    if (op == "ret" || op == "exit") {
      inst->run = Return;
      return;
    }
    if (op == "trap") {
      inst->run = Trap;
      return;
    }
    if (op == "griddepcontrol" || op == "nanosleep" || op == "prefetch" || op == "pragma" || op == "discard") {
      inst->run = Nothing;
      return;
    }
    if (op == "membar" || op == "fence") {
      inst->run = Fence;
      return;
    }
    if ((op == "bar" || op == "barrier") && !Has("warp")) {
      inst->run = Has("red") ? nullptr : Barrier;
      return;
    }
    if (op == "bar") {
      inst->run = WarpSync;
      inst->mode = 7;
      return;
    }
    if (op == "ld" || op == "ldu") {
      inst->space = Space();
      inst->bytes = BytesOf(type);
      inst->mode = (type[0] == 's') | ((Has("relaxed") || Has("acquire") || Has("volatile")) ? 2 : 0);
      Memory(inst, operands_[1]);
      if (operands_[0][0] == '{')
        inst->vector = Vector(operands_[0]);
      else
        inst->d = Value(operands_[0]);
      inst->run = failed_ ? nullptr : Load;
      return;
    }
    if (op == "st") {
      inst->space = Space();
      inst->bytes = BytesOf(type);
      inst->mode = (Has("relaxed") || Has("release") || Has("volatile")) ? 2 : 0;
      Memory(inst, operands_[0]);
      if (operands_[1][0] == '{')
        inst->vector = Vector(operands_[1]);
      else
        inst->b = Value(operands_[1]);
      inst->run = failed_ ? nullptr : Store;
      return;
    }
    if (op == "ldmatrix") {
      inst->vector = Vector(operands_[0]);
      Memory(inst, operands_[1]);
      inst->mode = 8;
      inst->run = failed_ || Has("trans") ? nullptr : WarpSync;
      return;
    }
    if (op == "atom" || op == "red") {
      inst->space = Space();
      const bool returns = op == "atom";
      Memory(inst, operands_[returns ? 1 : 0]);
      inst->d = returns ? Value(operands_[0]) : static_cast<int>(kSink);
      inst->b = Value(operands_[returns ? 2 : 1]);
      if (operands_.size() > (returns ? 3U : 2U)) inst->c = Value(operands_[returns ? 3 : 2]);
      inst->mode = Has("add")    ? kAtomAdd
                   : Has("exch") ? kAtomExch
                   : Has("cas")  ? kAtomCas
                   : Has("min")  ? kAtomMin
                   : Has("max")  ? kAtomMax
                   : Has("and")  ? kAtomAnd
                   : Has("or")   ? kAtomOr
                                 : kAtomXor;
      inst->run = failed_ || Has("inc") || Has("dec") ? nullptr : PickAny<Atom>(type);
      return;
    }
    if (op == "mov" && operands_[0][0] == '{') {
      inst->vector = Vector(operands_[0]);
      inst->a = Value(operands_[1]);
      inst->bytes = BytesOf(type) / static_cast<int>(inst->vector.size());
      inst->run = failed_ ? nullptr : Unpack;
      return;
    }
    if (op == "mov" && operands_[1][0] == '{') {
      inst->vector = Vector(operands_[1]);
      inst->d = Value(operands_[0]);
      inst->bytes = BytesOf(type) / static_cast<int>(inst->vector.size());
      inst->run = failed_ ? nullptr : Pack;
      return;
    }
    if (op == "shfl") {
      Abc(inst);
      inst->mode = Has("up") ? 0 : Has("down") ? 1 : Has("bfly") ? 2 : 3;
      inst->run = failed_ ? nullptr : WarpSync;
      return;
    }
    if (op == "vote") {
      if (operands_.size() > 1 && operands_[1][0] == '!') inst->space = 1, operands_[1] = operands_[1].substr(1);
      Abc(inst);
      inst->mode = Has("ballot") ? 4 : Has("any") ? 5 : 6;
      inst->run = failed_ ? nullptr : WarpSync;
      return;
    }
    if (op == "activemask") {
      inst->d = Value(operands_[0]);
      inst->run = ActiveMask;
      return;
    }

    Abc(inst);
    if (failed_) return;
    const int rounding = Has("rz") || Has("rzi") ? 1 : Has("rm") || Has("rmi") ? 2 : Has("rp") || Has("rpi") ? 3 : 0;
    const bool to_integer = Has("rni") || Has("rzi") || Has("rmi") || Has("rpi");
    const bool floating =
        type == "f32" || type == "f64" || type == "f16" || type == "bf16" || type == "f16x2" || type == "bf16x2";
    inst->mode = rounding | (Has("sat") ? 4 : 0) | (Has("relu") ? 64 : 0);
    const bool cc = Has("cc");
    const auto pair = [&](int which) -> Run {
      inst->mode |= Has("NaN") ? 8 : 0;
      if (type == "f16x2") {
        const Run runs[] = {PairDo<Half, 0>, PairDo<Half, 1>, PairDo<Half, 2>, PairDo<Half, 3>, PairDo<Half, 4>};
        return runs[which];
      }
      const Run runs[] = {PairDo<BFloat, 0>, PairDo<BFloat, 1>, PairDo<BFloat, 2>, PairDo<BFloat, 3>,
                          PairDo<BFloat, 4>};
      return runs[which];
    };
    const bool two = type == "f16x2" || type == "bf16x2";
    Run& run = inst->run;
    if (op == "mov")
      run = Mov;
    else if (op == "add" && two)
      run = pair(0);
    else if (op == "sub" && two)
      run = pair(1);
    else if (op == "mul" && two)
      run = pair(2);
    else if (op == "min" && two)
      run = pair(3);
    else if (op == "max" && two)
      run = pair(4);
    else if (op == "add" && (cc || false))
      inst->mode = 16, run = PickInt<AddCarry>(type);
    else if (op == "addc")
      inst->mode = 32 | (cc ? 16 : 0), run = PickInt<AddCarry>(type);
    else if (op == "sub" && cc)
      inst->mode = 16, run = PickInt<SubCarry>(type);
    else if (op == "subc")
      inst->mode = 32 | (cc ? 16 : 0), run = PickInt<SubCarry>(type);
    else if (op == "add")
      run = PickAny<Add>(type);
    else if (op == "sub")
      run = PickAny<Sub>(type);
    else if (op == "mul" && Has("wide"))
      run = PickInt<MulWide>(type);
    else if (op == "mul" && Has("hi"))
      run = PickInt<MulHi>(type);
    else if (op == "mul")
      run = PickAny<Mul>(type);
    else if ((op == "mad" && floating) || op == "fma")
      run = type == "f16x2" ? FmaPair<Half>::Do : type == "bf16x2" ? FmaPair<BFloat>::Do : PickFloat<Fma>(type);
    else if (op == "mad" && Has("wide"))
      run = PickInt<MadWide>(type);
    else if (op == "mad" || op == "madc")
      inst->mode = (Has("hi") ? 1 : 0) | (cc ? 16 : 0) | (op == "madc" ? 32 : 0), run = PickInt<Mad>(type);
    else if (op == "div")
      run = PickAny<Div>(type);
    else if (op == "rem")
      run = PickInt<Rem>(type);
    else if (op == "min")
      inst->mode |= Has("NaN") ? 8 : 0, run = PickAny<Min>(type);
    else if (op == "max")
      inst->mode |= Has("NaN") ? 8 : 0, run = PickAny<Max>(type);
    else if (op == "and")
      run = type == "pred" ? And<uint64_t>::Do : PickInt<And>(type);
    else if (op == "or")
      run = type == "pred" ? Or<uint64_t>::Do : PickInt<Or>(type);
    else if (op == "xor")
      run = type == "pred" ? Xor<uint64_t>::Do : PickInt<Xor>(type);
    else if (op == "not")
      run = type == "pred" ? NotPred : PickInt<Not>(type);
    else if (op == "shl")
      run = PickInt<Shl>(type);
    else if (op == "shr")
      run = PickInt<Shr>(type);
    else if (op == "shf")
      inst->mode = (Has("l") ? 1 : 0) | (Has("wrap") ? 2 : 0), run = Shf;
    else if (op == "prmt")
      run = operands_.size() == 4 && words_.size() == 2 ? Prmt : nullptr;
    else if (op == "lop3")
      inst->offset = strtol(operands_.back().c_str(), nullptr, 0), run = Lop3;
    else if (op == "bfe")
      run = PickInt<Bfe>(type);
    else if (op == "clz")
      run = PickInt<Clz>(type);
    else if (op == "popc")
      run = PickInt<Popc>(type);
    else if (op == "brev")
      run = PickInt<Brev>(type);
    else if (op == "neg")
      run = PickAny<Neg>(type);
    else if (op == "abs")
      run = floating ? PickFloat<AbsFloat>(type) : PickInt<AbsInt>(type);
    else if (op == "sqrt")
      run = PickFloat<Sqrt>(type);
    else if (op == "rsqrt")
      run = PickFloat<Rsqrt>(type);
    else if (op == "rcp")
      run = PickFloat<Rcp>(type);
    else if (op == "sin")
      run = PickFloat<Sin>(type);
    else if (op == "cos")
      run = PickFloat<Cos>(type);
    else if (op == "lg2")
      run = PickFloat<Lg2>(type);
    else if (op == "ex2")
      run = PickFloat<Ex2>(type);
    else if (op == "tanh")
      run = PickFloat<Tanh>(type);
    else if (op == "copysign")
      run = PickFloat<CopySign>(type);
    else if (op == "selp")
      run = PickAny<Selp>(type);
    else if (op == "setp") {
      static const std::map<std::string, int> compares = {
          {"eq", kEq},   {"ne", kNe},   {"lt", kLt},   {"le", kLe},   {"gt", kGt},   {"ge", kGe},
          {"equ", kEqu}, {"neu", kNeu}, {"ltu", kLtu}, {"leu", kLeu}, {"gtu", kGtu}, {"geu", kGeu},
          {"num", kNum}, {"nan", kNan}, {"lo", kLt},   {"ls", kLe},   {"hi", kGt},   {"hs", kGe}};
      const auto at = compares.find(words_[1]);
      if (at == compares.end()) return;
      inst->mode = static_cast<uint8_t>(at->second | (Has("and") ? 0x10 : Has("or") ? 0x20 : Has("xor") ? 0x30 : 0));
      run = PickAny<Setp>(type);
    } else if (op == "cvt" && (words_[words_.size() - 2] == "bf16x2" || words_[words_.size() - 2] == "f16x2")) {
      run = words_[words_.size() - 2] == "f16x2" ? CvtPair<Half> : CvtPair<BFloat>;
    } else if (op == "cvt") {
      inst->mode |= to_integer ? 8 : 0;
      run = PickCvt(words_[words_.size() - 2], type);
    } else if (op == "cvta") {
      inst->space = Space();
      run = Has("to") ? CvtaTo : CvtaFrom;
    }
  }

  Module* const module_;
  Kernel* const kernel_;
  std::vector<std::string> words_, operands_;
  std::vector<std::pair<size_t, std::string>> branches_;
  bool failed_ = false;
};

void ParseGlobal(Module* module, const std::string& text) {
  size_t align = 1, bytes = 0;
  std::string name;
  Decoder::Variable(text, &align, &bytes, &name);
  if (text.find(".shared") != std::string::npos) {
    module->shared[name] = {align, bytes};
    return;
  }
  auto& global = module->globals[name];
  global.content.assign(bytes + 256, 0);
  const size_t equals = text.find('=');
  if (equals != std::string::npos) {
    int element = 1;
    for (const char* t : {"b8", "u8", "s8"})
      if (text.find(std::string(".") + t) != std::string::npos) element = 1;
    for (const char* t : {"b16", "u16", "s16"})
      if (text.find(std::string(".") + t) != std::string::npos) element = 2;
    for (const char* t : {"b32", "u32", "s32", "f32"})
      if (text.find(std::string(".") + t) != std::string::npos) element = 4;
    for (const char* t : {"b64", "u64", "s64", "f64"})
      if (text.find(std::string(".") + t) != std::string::npos) element = 8;
    std::string list = Trim(text.substr(equals + 1));
    if (list[0] == '{') list = list.substr(1, list.rfind('}') - 1);
    size_t at = 0;
    for (const std::string& part : Split(list, ',')) {
      const uint64_t v = part.rfind("0f", 0) == 0 || part.rfind("0d", 0) == 0 ? strtoull(part.c_str() + 2, nullptr, 16)
                         : part[0] == '-' ? static_cast<uint64_t>(strtoll(part.c_str(), nullptr, 0))
                                          : strtoull(part.c_str(), nullptr, 0);
      if (at + element <= global.content.size()) memcpy(global.content.data() + at, &v, element);
      at += element;
    }
  }
  global.memory = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(global.content.data()) + 255) / 256 * 256);
  memmove(global.memory, global.content.data(), bytes);
}

}  // namespace

std::shared_ptr<Module> Parse(const char* source, std::string* error) {
  auto module = std::make_shared<Module>();
  // Without comments and lines that are for tools.
  std::string text;
  for (const char* line = source; *line != '\0';) {
    const char* end = strchr(line, '\n');
    if (end == nullptr) end = line + strlen(line);
    std::string one(line, end);
    line = *end == '\n' ? end + 1 : end;
    one = one.substr(0, one.find("//"));
    const std::string trimmed = Trim(one);
    if (trimmed.rfind(".section", 0) == 0) break;  // debug information comes last
    bool drop = false;
    for (const char* word : {".loc\t", ".loc ", ".file", ".version", ".target", ".address_size", ".pragma"})
      drop |= trimmed.rfind(word, 0) == 0;
    if (!drop) text += one + "\n";
  }
  std::string statement;
  Kernel* kernel = nullptr;
  std::unique_ptr<Decoder> decoder;
  int depth = 0;
  bool function = false;  // a .func body, skipped
  for (size_t k = 0; k < text.size(); ++k) {
    const char c = text[k];
    const std::string so_far = Trim(statement);
    if (c == ':' && text[k + 1] == ':') {
      statement += "::";
      ++k;
    } else if (c == ':') {
      if (decoder != nullptr) decoder->Label(so_far);
      statement.clear();
    } else if (c == ';') {
      if (decoder != nullptr)
        decoder->Statement(statement);
      else if (!function && so_far.find(".func") == std::string::npos && so_far.find('.') != std::string::npos)
        ParseGlobal(module.get(), so_far);
      statement.clear();
    } else if (c == '{' && !so_far.empty() && so_far.find(".entry") == std::string::npos &&
               so_far.find(".func") == std::string::npos) {
      while (text[k] != '}') statement += text[k++];
      statement += '}';
    } else if (c == '{') {
      ++depth;
      if (depth > 1) continue;
      const size_t entry = so_far.find(".entry");
      if (entry == std::string::npos) {
        function = true;
      } else {
        const size_t open = so_far.find('(', entry);
        const size_t brace = so_far.find_first_of(" \t\n(.", so_far.find_first_not_of(" \t\n", entry + 6));
        const std::string name = Trim(so_far.substr(entry + 6, brace - entry - 6));
        kernel = &module->kernels[name];
        kernel->name = name;
        decoder = std::make_unique<Decoder>(module.get(), kernel);
        if (open != std::string::npos) {
          for (const std::string& parameter : Split(so_far.substr(open + 1, so_far.find(')', open) - open - 1), ',')) {
            size_t align = 1, bytes = 0;
            std::string parameter_name, cleaned = parameter;
            // ".param .u64 .ptr .global .align 16 name": the alignment is the pointee's.
            const bool pointer = parameter.find(".ptr") != std::string::npos;
            Decoder::Variable(parameter, &align, &bytes, &parameter_name);
            if (pointer) align = bytes = 8;
            size_t& used = kernel->parameter_bytes;
            used = (used + align - 1) / align * align;
            kernel->parameters.push_back({used, bytes});
            kernel->parameter_offset[parameter_name] = used;
            used += bytes;
          }
        }
      }
      statement.clear();
    } else if (c == '}') {
      if (--depth == 0) {
        if (decoder != nullptr) decoder->Finish();
        decoder.reset();
        kernel = nullptr;
        function = false;
      }
      statement.clear();
    } else {
      statement += c;
    }
  }
  for (const auto& [name, k] : module->kernels) {
    for (const Inst& inst : k.code) {
      if (inst.run == Unknown) *error += (error->empty() ? "not understood: " : "; ") + inst.text;
    }
  }
  return module;
}

const Kernel* FindKernel(const Module& module, const std::string& name) {
  const auto at = module.kernels.find(name);
  return at == module.kernels.end() ? nullptr : &at->second;
}
void* FindGlobal(Module& module, const std::string& name, size_t* bytes) {
  const auto at = module.globals.find(name);
  if (at == module.globals.end()) return nullptr;
  *bytes = at->second.content.size() - 256;
  return at->second.memory;
}
std::vector<char> PackArguments(const Kernel& kernel, void** parameters) {
  std::vector<char> arguments(kernel.parameter_bytes);
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    memcpy(arguments.data() + kernel.parameters[i].offset, parameters[i], kernel.parameters[i].bytes);
  }
  return arguments;
}

std::string Launch(const Kernel& kernel, Dim grid, Dim dim, unsigned dynamic_shared,
                   const std::vector<char>& arguments) {
  const unsigned count = dim.x * dim.y * dim.z;
  const size_t registers = kernel.register_count;
  Block block;
  block.shared.resize(kernel.shared_bytes + dynamic_shared + 16);
  std::vector<uint64_t> file(registers * count, 0);
  std::vector<char> local(kernel.local_bytes * count + 16);
  std::vector<Thread> threads(count);
  const Inst* const code = kernel.code.data();
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        for (unsigned n = 0; n < count; ++n) {
          Thread& t = threads[n];
          t = Thread{};
          t.r = &file[registers * n];
          t.kernel = &kernel;
          t.block = &block;
          t.parameters = arguments.data();
          t.local = local.data() + kernel.local_bytes * n;
          t.number = n;
          const uint64_t special[] = {0,
                                      n % dim.x,
                                      n / dim.x % dim.y,
                                      n / dim.x / dim.y,
                                      dim.x,
                                      dim.y,
                                      dim.z,
                                      x,
                                      y,
                                      z,
                                      grid.x,
                                      grid.y,
                                      grid.z,
                                      n % 32,
                                      n / 32,
                                      0,
                                      0};
          memcpy(t.r, special, sizeof(special));
          for (const auto& [index, value] : kernel.constants) t.r[index] = value;
        }
        for (;;) {
          bool moved = false;
          unsigned done = 0, at_barrier = 0;
          for (unsigned n = 0; n < count; ++n) {
            Thread& t = threads[n];
            while (t.state == State::kReady) {
              moved = true;
              const Inst& inst = code[t.pc++];
              if (inst.guard >= 0 && (t.r[inst.guard] != 0) == inst.negated) continue;
              inst.run(t, inst);
              if (t.error != nullptr) return std::string(t.error) + " (at: " + inst.text + ")";
            }
            done += t.state == State::kDone;
            at_barrier += t.state == State::kBarrier;
          }
          if (done == count) break;
          if (done + at_barrier == count) {
            for (Thread& t : threads)
              if (t.state == State::kBarrier) t.state = State::kReady;
            continue;
          }
          for (unsigned first = 0; first < count; first += 32) {
            const int lanes = static_cast<int>(count - first < 32 ? count - first : 32);
            int pc = -1;
            bool all = true, any = false;
            for (int lane = 0; lane < lanes; ++lane) {
              const Thread& t = threads[first + lane];
              if (t.state == State::kWarp) {
                any = true;
                if (pc < 0) pc = t.pc;
                all &= t.pc == pc;
              }
            }
            if (!any) continue;
            if (!all) return "threads of a warp wait at different places";
            Together(&threads[first], lanes, code[pc - 1]);
            for (int lane = 0; lane < lanes; ++lane)
              if (threads[first + lane].error != nullptr) return threads[first + lane].error;
            moved = true;
          }
          if (!moved) return "no thread can go on";
        }
      }
  return "";
}

}  // namespace ptx
