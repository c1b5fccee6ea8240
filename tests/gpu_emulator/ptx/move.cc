// Moves between registers, and between state spaces and generic addresses.
//
// A generic address is the host's. Addresses in shared and local memory and of parameters start at 0.
#include <chrono>

#include "ptx/access.h"
#include "ptx/arithmetic.h"

namespace ptx {
namespace {

struct Copy {
  template <typename U>
  static U Of(U a) {
    return a;
  }
};

void MovePredicate(Warp& warp, const Instruction& i) { SetPredicate(warp, i.d, Predicate(warp, i.a)); }

uint64_t Part(const Warp& warp, uint32_t reg, size_t bytes, int lane) {
  return bytes == 2 ? Lane<uint16_t>(warp, reg)[lane] : Lane<uint32_t>(warp, reg)[lane];
}

// mov.b32 d, {a, b}: the first element is the lowest.
template <typename U>
void Pack(Warp& warp, const Instruction& i) {
  ForActiveLanes(warp, [&](int lane) {
    uint64_t value = 0;
    for (size_t k = 0; k < i.vector.size(); ++k) value |= Part(warp, i.vector[k], i.bytes, lane) << (8 * i.bytes * k);
    Lane<U>(warp, i.d)[lane] = static_cast<U>(value);
  });
}

template <typename U>
void Unpack(Warp& warp, const Instruction& i) {
  ForActiveLanes(warp, [&](int lane) {
    const uint64_t value = Lane<U>(warp, i.a)[lane];
    for (size_t k = 0; k < i.vector.size(); ++k) {
      const uint64_t part = value >> (8 * i.bytes * k);
      if (i.bytes == 2) Lane<uint16_t>(warp, i.vector[k])[lane] = static_cast<uint16_t>(part);
      if (i.bytes == 4) Lane<uint32_t>(warp, i.vector[k])[lane] = static_cast<uint32_t>(part);
    }
  });
}

Handler DecodeParts(Decoding& decoding, Type type) {
  Instruction& i = decoding.instruction();
  const bool unpacks = decoding.IsVector(0);
  const size_t vector = unpacks ? 0 : 1;
  const size_t parts = decoding.operand(vector).parts.size();
  i.bytes = static_cast<uint8_t>(BytesOf(type) / (parts == 0 ? 1 : parts));
  if (i.bytes * parts != BytesOf(type) || (i.bytes != 2 && i.bytes != 4)) return nullptr;
  i.vector = decoding.VectorOf(vector, i.bytes == 2 ? Type::kB16 : Type::kB32, unpacks);
  if (unpacks) i.a = decoding.Source(1, type);
  if (!unpacks) i.d = decoding.Destination(0, type);
  if (BytesOf(type) == 4) return unpacks ? Unpack<uint32_t> : Pack<uint32_t>;
  return unpacks ? Unpack<uint64_t> : Pack<uint64_t>;
}

uint64_t Nanoseconds() {
  return static_cast<uint64_t>(std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

template <typename U>
void ReadClock(Warp& warp, const Instruction& i) {
  const U now = static_cast<U>(Nanoseconds());
  ForActiveLanes(warp, [&](int lane) { Lane<U>(warp, i.d)[lane] = now; });
}

Handler DecodeMov(Decoding& decoding) {
  const Type type = decoding.TakeType();
  if (decoding.operands() == 2 && (decoding.IsVector(0) || decoding.IsVector(1))) return DecodeParts(decoding, type);
  const std::string source = decoding.operands() < 2 ? "" : decoding.operand(1).parts[0];
  if (source == "%clock" || source == "%clock64" || source == "%globaltimer") {
    decoding.instruction().d = decoding.Destination(0, type);
    if (BytesOf(type) != (source == "%clock" ? 4 : 8)) return nullptr;
    return source == "%clock" ? ReadClock<uint32_t> : ReadClock<uint64_t>;
  }
  TakeOperands(decoding, type, 1);
  if (type == Type::kPred) return MovePredicate;
  return ForUnsigned(type, [](auto tag) -> Handler {
    using U = typename decltype(tag)::Of;
    return Unary<Copy, U, U>;
  });
}

// The generic address at which `space` starts for a lane.
uint64_t Base(const Warp& warp, Space space, int lane) {
  switch (space) {
    case Space::kShared:
      return reinterpret_cast<uint64_t>(warp.block->shared);
    case Space::kLocal:
      return reinterpret_cast<uint64_t>(warp.local) + static_cast<uint64_t>(lane) * warp.local_bytes;
    case Space::kParameter:
      return reinterpret_cast<uint64_t>(warp.grid->arguments);
    default:
      return 0;
  }
}

template <bool kToSpace>
void ConvertAddress(Warp& warp, const Instruction& i) {
  const uint64_t* const from = Lane<uint64_t>(warp, i.a);
  uint64_t* const to = Lane<uint64_t>(warp, i.d);
  ForActiveLanes(warp, [&](int lane) {
    const uint64_t base = Base(warp, i.space, lane);
    to[lane] = kToSpace ? from[lane] - base : from[lane] + base;
  });
}

Handler DecodeCvta(Decoding& decoding) {
  const Type type = decoding.TakeType();
  const bool to_space = decoding.Take("to");
  decoding.instruction().space = TakeAddressSpace(decoding);
  if (decoding.instruction().space == Space::kGeneric) decoding.Refuse("state space is not understood");
  TakeOperands(decoding, type, 1);
  if (type != Type::kU64) return nullptr;
  return to_space ? ConvertAddress<true> : ConvertAddress<false>;
}

}  // namespace

const Opcodes& MoveOpcodes() {
  static const Opcodes opcodes = {{"mov", DecodeMov}, {"cvta", DecodeCvta}};
  return opcodes;
}

}  // namespace ptx
