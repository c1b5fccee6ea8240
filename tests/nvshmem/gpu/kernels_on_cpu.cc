// kernels.cu for the CPU: threads of a launch run one after the other.
#include <cstring>
#include <string>
#include <unordered_map>

#include "tests/nvshmem/gpu/cuda_double.h"
#include "xla_patch/thunks/narrow_floats.h"

namespace xla_shmem::testing {
namespace {

struct Index {
  unsigned x;
};
thread_local Index gridDim, blockDim, blockIdx, threadIdx;  // as CUDA names them

#ifndef __FLT16_MAX__
// Older clangs have no _Float16 on x86.
struct Half {
  explicit Half(float value) : bits(xla_shmem::F16::Narrow(value).bits) {}
  explicit operator float() const { return xla_shmem::F16::Widen({bits}); }
  uint16_t bits;
};
#define _Float16 Half
#endif

#define __global__
#define __device__
#include "xla_patch/nvshmem/gpu/kernels.cu"

template <typename Arguments, void (*kKernel)(Arguments)>
void Run(void* argument, unsigned grid, unsigned block) {
  Arguments arguments;
  memcpy(&arguments, argument, sizeof(arguments));
  gridDim.x = grid;
  blockDim.x = block;
  for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x) {
    for (threadIdx.x = 0; threadIdx.x < block; ++threadIdx.x) kKernel(arguments);
  }
}

void RunTrap(void*, unsigned, unsigned) { trap(); }

}  // namespace

const Kernel* FindKernel(const char* name) {
#define XLA_SHMEM_NAMED(kernel)                                        \
  {                                                                    \
    #kernel, { Run<ReduceArguments, kernel>, sizeof(ReduceArguments) } \
  }
#define XLA_SHMEM_KINDS(type)                                                                                        \
  XLA_SHMEM_NAMED(reduce_##type##_sum), XLA_SHMEM_NAMED(reduce_##type##_prod), XLA_SHMEM_NAMED(reduce_##type##_min), \
      XLA_SHMEM_NAMED(reduce_##type##_max)
  static const std::unordered_map<std::string, Kernel> kernels = {
      XLA_SHMEM_KINDS(f32),
      XLA_SHMEM_KINDS(f64),
      XLA_SHMEM_KINDS(f16),
      XLA_SHMEM_KINDS(bf16),
      XLA_SHMEM_KINDS(s8),
      XLA_SHMEM_KINDS(s16),
      XLA_SHMEM_KINDS(s32),
      XLA_SHMEM_KINDS(s64),
      XLA_SHMEM_KINDS(u8),
      XLA_SHMEM_KINDS(u16),
      XLA_SHMEM_KINDS(u32),
      XLA_SHMEM_KINDS(u64),
      {"tick", {Run<TickArguments, tick>, sizeof(TickArguments)}},
      {"trap", {RunTrap, 0}}};
  const auto found = kernels.find(name);
  return found == kernels.end() ? nullptr : &found->second;
}

}  // namespace xla_shmem::testing
