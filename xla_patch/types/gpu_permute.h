#ifndef XLA_SHMEM_TYPES_GPU_PERMUTE_H_
#define XLA_SHMEM_TYPES_GPU_PERMUTE_H_

#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

namespace xla_shmem {

// What carries overlapping collective-permutes on GPU. One call is always a kernel. All processes of a job have the
// same.
enum class GpuPermute : uint8_t {
  kAuto,    // kernels if they are small
  kKernel,  // kernels
  kCopies,  // copies and stream memory operations
};

inline constexpr const char* kGpuPermuteWords[] = {"auto", "kernel", "copies"};
static_assert(std::size(kGpuPermuteWords) == static_cast<size_t>(GpuPermute::kCopies) + 1);

constexpr const char* GpuPermuteWord(GpuPermute permute) { return kGpuPermuteWords[static_cast<uint8_t>(permute)]; }

inline std::optional<GpuPermute> GpuPermuteNamed(std::string_view word) {
  for (const GpuPermute permute : {GpuPermute::kAuto, GpuPermute::kKernel, GpuPermute::kCopies}) {
    if (word == GpuPermuteWord(permute)) return permute;
  }
  return std::nullopt;
}

}  // namespace xla_shmem

#endif  // XLA_SHMEM_TYPES_GPU_PERMUTE_H_
