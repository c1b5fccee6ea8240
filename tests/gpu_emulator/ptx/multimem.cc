// multimem.ld_reduce and multimem.st: loads from and stores to the memory of several GPUs at a multicast address.
//
// In which order a GPU adds, and how exactly, is left open. So the order here depends on the process and the address,
// and a result that each PE computes for itself differs between PEs. Stores arrive as those to other GPUs, here too.
#include <unistd.h>

#include <array>
#include <type_traits>
#include <vector>

#include "ptx/access.h"
#include "ptx/arithmetic.h"
#include "ptx/stores_in_flight.h"

namespace ptx {
namespace {

constexpr size_t kMostBytes = 16;

enum Operation { kAdd, kMin, kMax, kAnd, kOr, kXor };

template <typename T>
T Combined(int operation, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    switch (operation) {
      case kAdd:
        return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
      case kMin:
        return b < a ? b : a;
      case kMax:
        return b > a ? b : a;
      case kAnd:
        return a & b;
      case kOr:
        return a | b;
      default:
        return a ^ b;
    }
  } else {
    return a + b;
  }
}

// How elements are accumulated: `kWide`: f16 and bf16 in f32, with one rounding at the end.
template <typename T, bool kWide>
void Reduce(int operation, const std::vector<char*>& members, size_t first, size_t bytes, char* reduced) {
  const auto element = [&](size_t member, size_t offset) {
    T value;
    memcpy(&value, members[(first + member) % members.size()] + offset, sizeof(T));
    return value;
  };
  for (size_t offset = 0; offset < bytes; offset += sizeof(T)) {
    T result = element(0, offset);
    if constexpr (std::is_arithmetic_v<T>) {
      for (size_t member = 1; member < members.size(); ++member) {
        result = Combined(operation, result, element(member, offset));
      }
    } else {
      float sum = T::Widen(result);
      for (size_t member = 1; member < members.size(); ++member) {
        sum += T::Widen(element(member, offset));
        if (!kWide) sum = T::Widen(Float<T>::Narrow(sum));
      }
      result = Float<T>::Narrow(sum);
    }
    memcpy(reduced + offset, &result, sizeof(T));
  }
}

// Registers of the operand that holds the data.
std::vector<uint32_t> Registers(const Instruction& i, uint32_t single) {
  return i.vector.empty() ? std::vector<uint32_t>{single} : i.vector;
}

uint64_t AddressOf(const Warp& warp, const Instruction& i, int lane) {
  return Lane<uint64_t>(warp, i.a)[lane] + static_cast<uint64_t>(i.number);
}

template <typename T, bool kWide>
void LoadReduce(Warp& warp, const Instruction& i) {
  const std::vector<uint32_t> registers = Registers(i, i.d);
  const size_t bytes = registers.size() * i.bytes;
  ForActiveLanes(warp, [&](int lane) {
    const uint64_t address = AddressOf(warp, i, lane);
    std::vector<char*> members;
    if (!warp.error.empty() || !ResolveMulticast(warp, address, bytes, lane, &members)) return;
    for (const char* const member : members) NoteAlias(warp, lane, member, bytes, /*multicast=*/true, /*write=*/false);
    const size_t first = (address / bytes + static_cast<size_t>(getpid())) % members.size();
    std::array<char, kMostBytes> reduced;
    Reduce<T, kWide>(i.mode, members, first, bytes, reduced.data());
    for (size_t k = 0; k < registers.size(); ++k) {
      memcpy(warp.registers + registers[k] + static_cast<size_t>(lane) * i.bytes, &reduced[k * i.bytes], i.bytes);
    }
  });
}

void StoreToAll(Warp& warp, const Instruction& i) {
  const std::vector<uint32_t> registers = Registers(i, i.b);
  const size_t bytes = registers.size() * i.bytes;
  ForActiveLanes(warp, [&](int lane) {
    std::vector<char*> members;
    if (!warp.error.empty() || !ResolveMulticast(warp, AddressOf(warp, i, lane), bytes, lane, &members)) return;
    for (char* const member : members) {
      NoteAlias(warp, lane, member, bytes, /*multicast=*/true, /*write=*/true);
      for (size_t k = 0; k < registers.size(); ++k) {
        uint64_t bits = 0;
        memcpy(&bits, warp.registers + registers[k] + static_cast<size_t>(lane) * i.bytes, i.bytes);
        warp.block->in_flight->Add(member + k * i.bytes, bits, i.bytes, ThreadOf(warp, lane));
      }
    }
  });
}

// By the table of types and operations in the PTX ISA. Types of 8 bits are left out, and min and max of f16.
Handler ChooseReduction(int operation, Type type, bool wide) {
  const bool add = operation == kAdd, order = operation == kMin || operation == kMax;
  switch (type) {
    case Type::kF32:
      return add ? LoadReduce<float, false> : static_cast<Handler>(nullptr);
    case Type::kF64:
      return add ? LoadReduce<double, false> : static_cast<Handler>(nullptr);
    case Type::kF16x2:
      return !add ? nullptr : wide ? LoadReduce<F16, true> : static_cast<Handler>(LoadReduce<F16, false>);
    case Type::kBf16x2:
      return !add ? nullptr : wide ? LoadReduce<Bf16, true> : static_cast<Handler>(LoadReduce<Bf16, false>);
    case Type::kB32:
      return operation >= kAnd ? LoadReduce<uint32_t, false> : static_cast<Handler>(nullptr);
    case Type::kB64:
      return operation >= kAnd ? LoadReduce<uint64_t, false> : static_cast<Handler>(nullptr);
    case Type::kU32:
      return add || order ? LoadReduce<uint32_t, false> : static_cast<Handler>(nullptr);
    case Type::kU64:
      return add || order ? LoadReduce<uint64_t, false> : static_cast<Handler>(nullptr);
    case Type::kS32:
      return add || order ? LoadReduce<int32_t, false> : static_cast<Handler>(nullptr);
    case Type::kS64:
      return order ? LoadReduce<int64_t, false> : static_cast<Handler>(nullptr);
    default:
      return nullptr;
  }
}

Handler DecodeMultimem(Decoding& decoding) {
  Instruction& i = decoding.instruction();
  const int kind = decoding.TakeOneOf({"ld_reduce", "st"});
  const Type type = decoding.TakeType();
  const bool ordered = decoding.Take("relaxed");
  if (ordered ? !decoding.Take("sys") : !decoding.Take("weak")) return nullptr;
  if (TakeAddressSpace(decoding) != Space::kGlobal || kind < 0 || type == Type::kNone) return nullptr;
  const int operation = decoding.TakeOneOf({"add", "min", "max", "and", "or", "xor"});
  const bool wide = decoding.Take("acc::f32");
  const int vector = decoding.TakeOneOf({"v2", "v4", "v8"});
  const bool load = kind == 0, narrow = type == Type::kF16x2 || type == Type::kBf16x2;
  if (load != (operation >= 0) || (wide && !(load && narrow))) return nullptr;
  if (vector >= 0 && (!IsFloat(type) || type == Type::kF64)) return nullptr;
  const size_t data = load ? 0 : 1, elements = vector < 0 ? 1 : size_t{2} << vector;
  i.bytes = static_cast<uint8_t>(BytesOf(type));
  if (i.bytes < 4 || i.bytes * elements > kMostBytes) return nullptr;
  i.mode = static_cast<uint8_t>(load ? operation : 0);
  decoding.Address(load ? 1 : 0, Space::kGlobal);
  if (decoding.IsVector(data) != (vector >= 0)) return nullptr;
  if (vector >= 0) {
    i.vector = decoding.VectorOf(data, type, load);
    if (i.vector.size() != elements) decoding.Refuse("the vector has another size than the instruction");
  } else if (load) {
    i.d = decoding.Destination(data, type);
  } else {
    i.b = decoding.Source(data, type);
  }
  return load ? ChooseReduction(operation, type, wide) : StoreToAll;
}

}  // namespace

const Opcodes& MultimemOpcodes() {
  static const Opcodes opcodes = {{"multimem", DecodeMultimem}};
  return opcodes;
}

}  // namespace ptx
