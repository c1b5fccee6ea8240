// ld, st and what hints at them.
#include <type_traits>

#include "ptx/access.h"
#include "ptx/aliases.h"
#include "ptx/arithmetic.h"
#include "ptx/stores_in_flight.h"

namespace ptx {
namespace {

// Instruction::mode is an Ordering.
template <typename T>
T Read(const char* from, uint8_t mode) {
  if (mode != 0) return __atomic_load_n(reinterpret_cast<const T*>(from), __ATOMIC_SEQ_CST);
  return *reinterpret_cast<const T*>(from);
}

// Elements of type T in registers of type R, which may be wider: then the value is extended.
template <typename T, typename R>
void LoadElements(Warp& warp, const Instruction& i, char* const* host, uint32_t reg, size_t offset) {
  R values[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) values[lane] = static_cast<R>(Read<T>(host[lane] + offset, i.mode));
  if (warp.active == kAllLanes) {
    memcpy(Lane<R>(warp, reg), values, sizeof(values));
  } else {
    SetLanes(warp, Lane<R>(warp, reg), values);
  }
}

template <typename T, typename R>
void Load(Warp& warp, const Instruction& i) {
  char* host[kLanes];
  const size_t count = i.vector.empty() ? 1 : i.vector.size();
  if (!Resolve(warp, i, sizeof(T) * count, false, host)) return;
  // A thread sees its own stores.
  if (IsRemote(warp, host[__builtin_ctz(warp.active)])) warp.block->in_flight->DeliverAll();
  if (i.vector.empty()) return LoadElements<T, R>(warp, i, host, i.d, 0);
  for (size_t k = 0; k < count; ++k) LoadElements<T, R>(warp, i, host, i.vector[k], k * sizeof(T));
}

template <typename T, typename R>
void Store(Warp& warp, const Instruction& i) {
  char* host[kLanes];
  const size_t count = i.vector.empty() ? 1 : i.vector.size();
  if (!Resolve(warp, i, sizeof(T) * count, true, host)) return;
  const bool releases = i.mode == static_cast<uint8_t>(Ordering::kSystemRelease);
  if (releases) ReleaseStores(warp);
  for (size_t k = 0; k < count; ++k) {
    const R* const values = Lane<R>(warp, i.vector.empty() ? i.b : i.vector[k]);
    ForActiveLanes(warp, [&](int lane) {
      auto* const to = reinterpret_cast<T*>(host[lane]) + k;
      if (!releases && IsRemote(warp, host[lane])) {
        const auto bits = static_cast<uint64_t>(static_cast<T>(values[lane]));
        warp.block->in_flight->Add(reinterpret_cast<char*>(to), bits, sizeof(T), ThreadOf(warp, lane));
      } else if (i.mode != 0) {
        __atomic_store_n(to, static_cast<T>(values[lane]), __ATOMIC_SEQ_CST);
      } else {
        *to = static_cast<T>(values[lane]);
      }
    });
  }
}

template <typename T>
Handler Choose(bool write, uint8_t register_bytes) {
  using Sign16 = std::conditional_t<std::is_signed_v<T>, int16_t, uint16_t>;
  using Sign32 = std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>;
  using Sign64 = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  switch (register_bytes) {
    case 2:
      return write ? Store<T, Sign16> : Load<T, Sign16>;
    case 4:
      return write ? Store<T, Sign32> : Load<T, Sign32>;
    case 8:
      return write ? Store<T, Sign64> : Load<T, Sign64>;
    default:
      // An immediate of 8 bits is as wide as what is stored.
      return write && register_bytes == sizeof(T) ? Store<T, T> : static_cast<Handler>(nullptr);
  }
}

Handler ChooseByType(Type type, bool write, uint8_t register_bytes) {
  switch (type) {
    case Type::kS8:
      return Choose<int8_t>(write, register_bytes);
    case Type::kS16:
      return Choose<int16_t>(write, register_bytes);
    case Type::kS32:
      return Choose<int32_t>(write, register_bytes);
    case Type::kF16:
    case Type::kBf16:
    case Type::kF16x2:
    case Type::kBf16x2:
    case Type::kPred:
      return nullptr;
    default:
      break;
  }
  switch (BytesOf(type)) {
    case 1:
      return Choose<uint8_t>(write, register_bytes);
    case 2:
      return Choose<uint16_t>(write, register_bytes);
    case 4:
      return Choose<uint32_t>(write, register_bytes);
    case 8:
      return Choose<uint64_t>(write, register_bytes);
    default:
      return nullptr;
  }
}

template <typename U>
void CopyRegister(Warp& warp, const Instruction& i) {
  ForLanes(warp, Lane<U>(warp, i.d), [](U a) { return a; }, Lane<U>(warp, i.a));
}

// Parameters of a call are registers.
bool IsCallParameter(Decoding& decoding, size_t index, uint32_t* reg, size_t* bytes) {
  const Operand& address = decoding.operand(index);
  if (address.kind != Operand::Kind::kAddress || address.offset != 0) return false;
  return decoding.CallParameter(address.parts[0], reg, bytes);
}

Handler DecodeCallParameter(Decoding& decoding, Type type, bool write, uint32_t parameter, size_t bytes) {
  Instruction& i = decoding.instruction();
  i.d = write ? parameter : decoding.Destination(0, type);
  i.a = write ? decoding.Source(1, type) : parameter;
  if (bytes != BytesOf(type)) decoding.Refuse("the parameter has another size");
  return ForUnsigned(type, [](auto tag) -> Handler { return CopyRegister<typename decltype(tag)::Of>; });
}

// Hints that change nothing but speed.
void TakeCacheHints(Decoding& decoding) {
  decoding.TakeOneOf({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  decoding.TakeOneOf(
      {"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate"});
  decoding.TakeOneOf({"L2::64B", "L2::128B", "L2::256B"});
}

template <bool kWrite>
Handler DecodeAccess(Decoding& decoding) {
  Instruction& i = decoding.instruction();
  const Type type = decoding.TakeType();
  const Space space = TakeAddressSpace(decoding);
  const size_t address = kWrite ? 0 : 1, value = kWrite ? 1 : 0;
  uint32_t parameter = 0;
  size_t bytes = 0;
  if (space == Space::kParameter && IsCallParameter(decoding, address, &parameter, &bytes)) {
    return DecodeCallParameter(decoding, type, kWrite, parameter, bytes);
  }
  i.mode = static_cast<uint8_t>(TakeOrdering(decoding));
  TakeCacheHints(decoding);
  if (!kWrite) decoding.Take("nc");
  decoding.Address(address, space);
  const int vector = decoding.TakeOneOf({"v2", "v4", "v8"});
  uint8_t register_bytes = 0;
  if (vector >= 0 && !decoding.IsVector(value)) return nullptr;
  if (decoding.IsVector(value)) {
    // Triton writes one element in braces as well.
    const size_t elements = vector < 0 ? 1 : size_t{2} << vector;
    i.vector = decoding.VectorOf(value, type, !kWrite);
    if (i.vector.size() != elements) decoding.Refuse("the vector has another size than the instruction");
    register_bytes = BytesOf(type) == 1 ? i.result_bytes : static_cast<uint8_t>(BytesOf(type));
  } else if (kWrite) {
    i.b = decoding.WideSource(value, type, &register_bytes);
  } else {
    i.d = decoding.WideDestination(value, type, &register_bytes);
  }
  if (kWrite && (space == Space::kParameter)) decoding.Refuse("parameters of a kernel cannot be written");
  return ChooseByType(type, kWrite, register_bytes);
}

Handler DecodePrefetch(Decoding& decoding) {
  const Space space = TakeAddressSpace(decoding);
  decoding.TakeOneOf({"L1", "L2"});
  decoding.Address(0, space);
  return DoNothing;
}

template <bool kReleases>
void Fence(Warp& warp, const Instruction& /*instruction*/) {
  if (kReleases) ReleaseStores(warp);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void FenceAliases(Warp& warp, const Instruction& instruction) {
  Fence<false>(warp, instruction);
  if (warp.grid->aliases == nullptr) return;
  ForActiveLanes(warp, [&](int lane) { warp.grid->aliases->Fence(GridThreadOf(warp, lane)); });
}

Handler DecodeFence(Decoding& decoding) {
  if (decoding.Take("proxy")) return decoding.Take("alias") ? FenceAliases : nullptr;
  const bool acquires = decoding.TakeOneOf({"acquire", "sc", "acq_rel", "release"}) == 0;
  const bool system = decoding.TakeOneOf({"sys", "cta", "cluster", "gpu", "gl"}) == 0;
  return system && !acquires ? Fence<true> : Fence<false>;
}

}  // namespace

const Opcodes& MemoryOpcodes() {
  static const Opcodes opcodes = {{"ld", DecodeAccess<false>},   {"ldu", DecodeAccess<false>},
                                  {"st", DecodeAccess<true>},    {"prefetch", DecodePrefetch},
                                  {"prefetchu", DecodePrefetch}, {"fence", DecodeFence},
                                  {"membar", DecodeFence}};
  return opcodes;
}

}  // namespace ptx
