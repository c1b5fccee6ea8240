// Compares kernels.cu, compiled for the CPU, with the reductions of the CPU path.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/nvshmem/gpu/cuda_double.h"
#include "xla_patch/nvshmem/gpu_reductions.h"
#include "xla_patch/thunks/reduction.h"

namespace xla_shmem::testing {
namespace {

struct Arguments {
  const void* inputs[128];
  void* output;
  unsigned long long elements;
  int count;
};

// Equal bits, or NaN on both sides: the payload of a NaN is not part of the contract.
bool SameValues(ElementType type, const std::vector<char>& a, const std::vector<char>& b) {
  if (a == b) return true;
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
        default:
          return false;
      }
    };
    if (!is_nan(x) || !is_nan(y)) return false;
  }
  return true;
}

TEST_CASE("Every reduction kernel computes what the CPU path computes, for any bits and any grid") {
  std::mt19937 random(5);
  for (const auto& [type, nvshmem_name] : kGpuElementTypes) {
    for (const ReductionKind kind : kGpuReductionKinds) {
      for (const size_t elements : {size_t{1}, size_t{7}, size_t{64}, size_t{1003}}) {
        const size_t count = 1 + random() % 4;
        std::vector<std::vector<char>> inputs;
        Arguments arguments{};
        std::vector<const char*> pointers;
        for (size_t i = 0; i < count; ++i) {
          std::vector<char>& bytes = inputs.emplace_back(elements * ElementBytes(type));
          for (char& byte : bytes) byte = static_cast<char>(random());
        }
        for (size_t i = 0; i < count; ++i) {
          pointers.push_back(inputs[i].data());
          arguments.inputs[i] = inputs[i].data();
        }
        std::vector<char> expected(elements * ElementBytes(type));
        Reduce(type, kind, pointers.data(), count, elements, expected.data());
        std::vector<char> output(expected.size());
        arguments.output = output.data();
        arguments.elements = elements;
        arguments.count = static_cast<int>(count);
        const std::string kernel = "reduce_" + ElementTypeName(type) + "_" + ReductionName(kind);
        CAPTURE(kernel);
        REQUIRE(FindKernel(kernel.c_str()) != nullptr);
        FindKernel(kernel.c_str())->run(&arguments, 1 + random() % 3, 32);
        CHECK(SameValues(type, output, expected));
      }
    }
  }
}

TEST_CASE("The output of a reduction may be one of its inputs") {
  std::vector<float> a(100, 1.5f), b(100, 2.0f);
  Arguments arguments{};
  arguments.inputs[0] = a.data();
  arguments.inputs[1] = b.data();
  arguments.output = b.data();
  arguments.elements = 100;
  arguments.count = 2;
  FindKernel("reduce_f32_prod")->run(&arguments, 2, 32);
  CHECK(b == std::vector<float>(100, 3.0f));
}

}  // namespace
}  // namespace xla_shmem::testing
