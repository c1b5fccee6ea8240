// Elements of matrices as cuBLAS stores them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "libraries/cublas_numbers.h"

namespace cublas {

// Bytes of an element, or 0 if the double does not know the type.
inline size_t BytesOf(int type) {
  switch (type) {
    case kInt8:
      return 1;
    case kFloat16:
    case kBFloat16:
      return 2;
    case kFloat32:
    case kInt32:
      return 4;
    case kFloat64:
    case kComplex64:
      return 8;
    case kComplex128:
      return 16;
    default:
      return 0;
  }
}

template <typename T>
T Read(const void* at) {
  T value;
  memcpy(&value, at, sizeof(value));
  return value;
}

// A float with the lowest `bits` bits of its significand rounded away, to nearest even. NaN and infinity stay.
inline float RoundedTo(float value, int bits) {
  uint32_t word = Read<uint32_t>(&value);
  if ((word & 0x7f800000u) == 0x7f800000u) return value;
  word += (1u << (bits - 1)) - 1 + ((word >> bits) & 1);
  word &= ~((1u << bits) - 1);
  return Read<float>(&word);
}
inline float RoundedToTF32(float value) { return RoundedTo(value, 13); }      // 10 bits of significand are left
inline float RoundedToBFloat16(float value) { return RoundedTo(value, 16); }  // 7 bits

inline float FromBFloat16(uint16_t bits) {
  const uint32_t word = static_cast<uint32_t>(bits) << 16;
  return Read<float>(&word);
}
inline uint16_t ToBFloat16(float value) {
  if (value != value) return 0x7fff;
  const float rounded = RoundedToBFloat16(value);
  return static_cast<uint16_t>(Read<uint32_t>(&rounded) >> 16);
}

// A real element of `type`.
template <typename T>
T LoadReal(const char* at, int type) {
  switch (type) {
    case kFloat16:
      return static_cast<T>(Read<_Float16>(at));
    case kBFloat16:
      return static_cast<T>(FromBFloat16(Read<uint16_t>(at)));
    case kFloat32:
      return static_cast<T>(Read<float>(at));
    case kFloat64:
      return static_cast<T>(Read<double>(at));
    case kInt8:
      return static_cast<T>(Read<int8_t>(at));
    default:
      return static_cast<T>(Read<int32_t>(at));
  }
}

template <typename T>
void StoreReal(char* at, int type, T value) {
  const auto store = [at](auto converted) { memcpy(at, &converted, sizeof(converted)); };
  switch (type) {
    case kFloat16:
      return store(static_cast<_Float16>(value));
    case kBFloat16:
      return store(ToBFloat16(static_cast<float>(value)));
    case kFloat32:
      return store(static_cast<float>(value));
    case kFloat64:
      return store(static_cast<double>(value));
    case kInt8:
      return store(static_cast<int8_t>(value));
    default:
      return store(static_cast<int32_t>(value));
  }
}

}  // namespace cublas
