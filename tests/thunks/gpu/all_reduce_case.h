// An all-reduce on the PEs of a GpuJob, with its results checked against the CPU's reduction.
#ifndef XLA_SHMEM_TESTS_THUNKS_GPU_ALL_REDUCE_CASE_H_
#define XLA_SHMEM_TESTS_THUNKS_GPU_ALL_REDUCE_CASE_H_

#include <cstddef>
#include <vector>

#include "xla_patch/thunks/reduction.h"

namespace xla_shmem::testing {

enum class Form { kOverlapping, kReplay, kGraph };

struct AllReduceCase {
  std::vector<std::vector<int>> groups;
  std::vector<ElementType> types;
  std::vector<size_t> elements;
  bool in_place = false;
  Form form = Form::kOverlapping;
  ReductionKind kind = ReductionKind::kSum;
  size_t arena_bytes = 1 << 20;
  size_t team_staging_bytes = 0;
};

// Runs the all-reduce several times with the driver's puts and with NVSHMEM's. Fails the test if a bit differs.
void RunBothWays(const AllReduceCase& test);

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_THUNKS_GPU_ALL_REDUCE_CASE_H_
