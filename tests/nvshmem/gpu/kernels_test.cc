// Compares the device code, compiled for the CPU, with the reductions of the CPU path.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/nvshmem/gpu/cuda_double.h"
#include "xla_patch/nvshmem/gpu/reduction_kernels.h"
#include "xla_patch/thunks/reduction.h"

namespace xla_shmem::testing {
namespace {

// Equal bits, or NaN on both sides: sign and payload of a NaN are not part of the contract.
bool SameValues(ElementType type, const std::vector<char>& a, const std::vector<char>& b) {
  if (a == b) return true;
  if (type == ElementType::kC64) return SameValues(ElementType::kF32, a, b);
  if (type == ElementType::kC128) return SameValues(ElementType::kF64, a, b);
  const size_t bytes = ElementBytes(type);
  for (size_t i = 0; i < a.size(); i += bytes) {
    if (memcmp(&a[i], &b[i], bytes) == 0) continue;
    uint64_t x = 0, y = 0;
    memcpy(&x, &a[i], bytes);
    memcpy(&y, &b[i], bytes);
    const auto is_nan = [&](uint64_t bits) {
      switch (type) {
        case ElementType::kF32:
          return (bits & 0x7fffffff) > 0x7f800000;
        case ElementType::kF64:
          return (bits & ~(uint64_t{1} << 63)) > (uint64_t{0x7ff} << 52);
        case ElementType::kF16:
          return (bits & 0x7fff) > 0x7c00;
        case ElementType::kBf16:
          return (bits & 0x7fff) > 0x7f80;
        case ElementType::kF8E5M2:
          return (bits & 0x7f) > 0x7c;
        case ElementType::kF8E4M3:
          return (bits & 0x7f) > 0x78;
        case ElementType::kF8E3M4:
          return (bits & 0x7f) > 0x70;
        case ElementType::kF8E4M3Fn:
          return (bits & 0x7f) == 0x7f;
        default:
          return false;
      }
    };
    if (!is_nan(x) || !is_nan(y)) return false;
  }
  return true;
}

std::vector<ElementType> AllTypes() {
  std::vector<ElementType> types;
  for (int type = 1; type <= static_cast<int>(ElementType::kBuffer); ++type) {
    types.push_back(static_cast<ElementType>(type));
  }
  return types;
}

TEST_CASE("GPUs have the reductions of the CPU path") {
  for (const ElementType type : AllTypes()) {
    for (const ReductionKind kind : kReductionKinds) {
      CAPTURE(ElementTypeName(type));
      CAPTURE(ReductionName(kind));
      CHECK(gpu::FindKernelReduction(type, kind).has_value() == Supports(type, kind));
    }
  }
}

TEST_CASE("Every reduction on GPU computes what the CPU path computes, for any bits and alignment") {
  std::mt19937 random(5);
  for (const ElementType type : AllTypes()) {
    for (const ReductionKind kind : kReductionKinds) {
      const std::optional<gpu::KernelReduction> reduction = gpu::FindKernelReduction(type, kind);
      if (!reduction.has_value()) continue;
      for (const size_t elements : {size_t{1}, size_t{7}, size_t{64}, size_t{1003}}) {
        const size_t count = 1 + random() % 20;
        const size_t shift = random() % 2 * ElementBytes(type);  // of the buffers against 16 bytes
        std::vector<std::vector<char>> inputs;
        std::vector<const char*> pointers;
        for (size_t i = 0; i < count; ++i) {
          std::vector<char>& bytes = inputs.emplace_back(elements * ElementBytes(type) + 16);
          for (char& byte : bytes) byte = static_cast<char>(type == ElementType::kPred ? random() % 2 : random());
        }
        for (const auto& input : inputs) pointers.push_back(input.data() + shift);
        std::vector<char> expected(elements * ElementBytes(type)), output(expected.size() + 16);
        Reduce(type, kind, pointers.data(), count, elements, expected.data());
        ReduceByKernel(*reduction, pointers.data(), static_cast<int>(count), expected.size(), output.data() + shift);
        CAPTURE(ElementTypeName(type));
        CAPTURE(ReductionName(kind));
        CHECK(SameValues(type, {output.data() + shift, output.data() + shift + expected.size()}, expected));
      }
    }
  }
}

TEST_CASE("The output of a reduction may be one of its inputs") {
  std::vector<float> a(100, 1.5f), b(100, 2.0f);
  const char* const inputs[] = {reinterpret_cast<char*>(a.data()), reinterpret_cast<char*>(b.data())};
  ReduceByKernel({gpu::kF32, ReductionKind::kProd}, inputs, 2, 400, reinterpret_cast<char*>(b.data()));
  CHECK(b == std::vector<float>(100, 3.0f));
}

}  // namespace
}  // namespace xla_shmem::testing
