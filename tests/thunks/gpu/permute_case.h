// Collective-permutes on the PEs of a GpuJob, with their results checked.
#ifndef XLA_SHMEM_TESTS_THUNKS_GPU_PERMUTE_CASE_H_
#define XLA_SHMEM_TESTS_THUNKS_GPU_PERMUTE_CASE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace xla_shmem::testing {

// Values that differ by PE and round.
std::vector<int32_t> Pattern(size_t elements, int pe, int round);

struct PermuteCase {
  std::vector<int> target_of;
  std::vector<size_t> elements;  // of each operand, int32
  bool in_place = false;
  bool whole = false;  // in one call, not as a pair
  int rounds = 5;
  bool batches = true;         // GpuJobOptions
  bool keeps_results = false;  // of PEs without a source
  int launches = 0;            // of the last round, captured into a graph if not 0
  bool driver_heap = false;
};

// Runs the permutes over the rings, with the driver's puts, with both kinds of signals, and with NVSHMEM's if the
// memory is. Fails the
// test if a result is wrong.
void RunPermutesBothWays(const PermuteCase& test);

// Runs them by kernels: overlapping, split and not, in line, and in a graph that is launched again and again.
void RunPermutesByKernel(const PermuteCase& test);

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_THUNKS_GPU_PERMUTE_CASE_H_
