// atom and red: atomic operations of the host, which also hold between processes that map the same memory.
#include <type_traits>

#include "ptx/access.h"
#include "ptx/arithmetic.h"
#include "ptx/stores_in_flight.h"

namespace ptx {
namespace {

struct Exchange {
  template <typename T>
  static T Of(T /*old*/, T b, T /*c*/) {
    return b;
  }
};
struct CompareAndSwap {
  template <typename T>
  static T Of(T old, T b, T c) {
    return old == b ? c : old;
  }
};
struct Add {
  template <typename T>
  static T Of(T old, T b, T /*c*/) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(old) + static_cast<std::make_unsigned_t<T>>(b));
    } else {
      return Float<T>::Narrow(Float<T>::Widen(old) + Float<T>::Widen(b));
    }
  }
  template <typename T>
  static Pair<T> Of(Pair<T> old, Pair<T> b, Pair<T> c) {
    return {Of(old.low, b.low, c.low), Of(old.high, b.high, c.high)};
  }
};
struct Minimum {
  template <typename T>
  static T Of(T old, T b, T /*c*/) {
    return b < old ? b : old;
  }
};
struct Maximum {
  template <typename T>
  static T Of(T old, T b, T /*c*/) {
    return b > old ? b : old;
  }
};
struct And {
  template <typename T>
  static T Of(T old, T b, T /*c*/) {
    return old & b;
  }
};
struct Or {
  template <typename T>
  static T Of(T old, T b, T /*c*/) {
    return old | b;
  }
};
struct Xor {
  template <typename T>
  static T Of(T old, T b, T /*c*/) {
    return old ^ b;
  }
};
// Up to b, then 0.
struct Increment {
  template <typename T>
  static T Of(T old, T b, T /*c*/) {
    return old >= b ? T{0} : static_cast<T>(old + 1);
  }
};
// Down to 0, then b.
struct Decrement {
  template <typename T>
  static T Of(T old, T b, T /*c*/) {
    return old == 0 || old > b ? b : static_cast<T>(old - 1);
  }
};

template <size_t kBytes>
using Bits = std::conditional_t<kBytes == 2, uint16_t, std::conditional_t<kBytes == 4, uint32_t, uint64_t>>;

template <typename Operation, typename T>
void Atomic(Warp& warp, const Instruction& i) {
  using Word = Bits<sizeof(T)>;
  char* host[kLanes];
  if (!Resolve(warp, i, sizeof(T), true, host)) return;
  if (i.mode == static_cast<uint8_t>(Ordering::kSystemRelease)) ReleaseStores(warp);
  if (IsRemote(warp, host[__builtin_ctz(warp.active)])) warp.block->in_flight->DeliverAll();
  const T* const b = Lane<T>(warp, i.b);
  const T* const c = Lane<T>(warp, i.c);
  ForActiveLanes(warp, [&](int lane) {
    auto* const word = reinterpret_cast<Word*>(host[lane]);
    Word old = __atomic_load_n(word, __ATOMIC_SEQ_CST);
    for (;;) {
      T value;
      memcpy(&value, &old, sizeof(T));
      const T result = Operation::Of(value, b[lane], c[lane]);
      Word next;
      memcpy(&next, &result, sizeof(T));
      if (__atomic_compare_exchange_n(word, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) break;
    }
    Lane<Word>(warp, i.d)[lane] = old;
  });
}

template <typename Operation>
Handler OfBits(Type type) {
  return ForUnsigned(type, [](auto tag) -> Handler { return Atomic<Operation, typename decltype(tag)::Of>; });
}

template <typename Operation>
Handler OfIntegers(Type type) {
  return ForInteger(type, [](auto tag) -> Handler { return Atomic<Operation, typename decltype(tag)::Of>; });
}

Handler Choose(int operation, Type type) {
  const bool bits = type == Type::kB32 || type == Type::kB64;
  const bool integer = !IsFloat(type) && !bits && BytesOf(type) >= 4;
  switch (operation) {
    case 0:  // add
      if (IsFloat(type)) {
        return ForFloat(type, [](auto tag) -> Handler { return Atomic<Add, typename decltype(tag)::Of>; });
      }
      return integer ? OfIntegers<Add>(type) : nullptr;
    case 1:
      return bits ? OfBits<Exchange>(type) : nullptr;
    case 2:
      return bits || type == Type::kB16 ? OfBits<CompareAndSwap>(type) : nullptr;
    case 3:
      return integer ? OfIntegers<Minimum>(type) : nullptr;
    case 4:
      return integer ? OfIntegers<Maximum>(type) : nullptr;
    case 5:
      return bits ? OfBits<And>(type) : nullptr;
    case 6:
      return bits ? OfBits<Or>(type) : nullptr;
    case 7:
      return bits ? OfBits<Xor>(type) : nullptr;
    case 8:
      return type == Type::kU32 ? OfBits<Increment>(type) : nullptr;
    case 9:
      return type == Type::kU32 ? OfBits<Decrement>(type) : nullptr;
    default:
      return nullptr;
  }
}

template <bool kReturns>
Handler DecodeAtomic(Decoding& decoding) {
  Instruction& i = decoding.instruction();
  const Type type = decoding.TakeType();
  const Space space = TakeAddressSpace(decoding);
  i.mode = static_cast<uint8_t>(TakeOrdering(decoding));
  const int operation = decoding.TakeOneOf({"add", "exch", "cas", "min", "max", "and", "or", "xor", "inc", "dec"});
  // Narrow floats keep their denormals, and say so.
  if (IsFloat(type) && type != Type::kF32 && type != Type::kF64 && !decoding.Take("noftz")) return nullptr;
  const size_t address = kReturns ? 1 : 0;
  i.d = kReturns ? decoding.Destination(0, type) : static_cast<uint32_t>(kSink);
  decoding.Address(address, space);
  i.b = decoding.Source(address + 1, type);
  i.c = operation == 2 ? decoding.Source(address + 2, type) : i.b;
  if (space != Space::kGeneric && space != Space::kGlobal && space != Space::kShared) return nullptr;
  return Choose(operation, type);
}

}  // namespace

const Opcodes& AtomicOpcodes() {
  static const Opcodes opcodes = {{"atom", DecodeAtomic<true>}, {"red", DecodeAtomic<false>}};
  return opcodes;
}

}  // namespace ptx
