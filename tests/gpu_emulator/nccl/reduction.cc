#include "nccl/reduction.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "libraries/matrix_elements.h"
#include "nccl/nccl_numbers.h"

namespace emulator::nccl {
namespace {

// The larger or smaller one; which one with a NaN, NCCL leaves open: here the NaN.
template <typename T>
T Extreme(T a, T b, bool larger) {
  if (a != a) return a;
  if (b != b) return b;
  return larger ? std::max(a, b) : std::min(a, b);
}

// Integers wrap.
template <typename T>
T Combined(T a, T b, int reduction) {
  using Wide = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
  switch (reduction) {
    case kSum:
      return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
    case kProduct:
      return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
    default:
      return Extreme(a, b, reduction == kMax);
  }
}

template <typename T>
void ReduceAll(int reduction, char* into, const char* with, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    const T value = Combined(cublas::Read<T>(into + i * sizeof(T)), cublas::Read<T>(with + i * sizeof(T)), reduction);
    memcpy(into + i * sizeof(T), &value, sizeof(T));
  }
}

void ReduceBfloat16(int reduction, char* into, const char* with, uint64_t count) {
  for (uint64_t i = 0; i < 2 * count; i += 2) {
    const float a = cublas::FromBFloat16(cublas::Read<uint16_t>(into + i));
    const float b = cublas::FromBFloat16(cublas::Read<uint16_t>(with + i));
    const uint16_t value = cublas::ToBFloat16(Combined(a, b, reduction));
    memcpy(into + i, &value, sizeof(value));
  }
}

}  // namespace

bool IsReduced(int type, int reduction) {
  return type >= kInt8 && type <= kBfloat16 && reduction >= kSum && reduction <= kMin;
}

void Reduce(int type, int reduction, char* into, const char* with, uint64_t count) {
  switch (type) {
    case kInt8:
      return ReduceAll<int8_t>(reduction, into, with, count);
    case kUint8:
      return ReduceAll<uint8_t>(reduction, into, with, count);
    case kInt32:
      return ReduceAll<int32_t>(reduction, into, with, count);
    case kUint32:
      return ReduceAll<uint32_t>(reduction, into, with, count);
    case kInt64:
      return ReduceAll<int64_t>(reduction, into, with, count);
    case kUint64:
      return ReduceAll<uint64_t>(reduction, into, with, count);
    case kFloat16:
      return ReduceAll<_Float16>(reduction, into, with, count);
    case kFloat32:
      return ReduceAll<float>(reduction, into, with, count);
    case kFloat64:
      return ReduceAll<double>(reduction, into, with, count);
    default:
      return ReduceBfloat16(reduction, into, with, count);
  }
}

}  // namespace emulator::nccl
