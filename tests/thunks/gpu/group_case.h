// A collective of groups on the PEs of a GpuJob, with its results checked against the CPU's.
#ifndef XLA_SHMEM_TESTS_THUNKS_GPU_GROUP_CASE_H_
#define XLA_SHMEM_TESTS_THUNKS_GPU_GROUP_CASE_H_

#include <cstddef>
#include <vector>

#include "xla_patch/nvshmem/gpu/device.h"
#include "xla_patch/thunks/reduction.h"
#include "xla_patch/types/collective_op.h"

namespace xla_shmem::testing {

enum class Form { kOverlapping, kInLine, kGraph };

struct GroupCase {
  CollectiveOp op;
  std::vector<std::vector<int>> groups;
  std::vector<ElementType> types;
  std::vector<size_t> elements;  // of one part of each operand
  bool in_place = false;
  Form form = Form::kOverlapping;
  ReductionKind kind = ReductionKind::kSum;
  size_t lane_bytes = 256 << 10;
  size_t arena_bytes = 256 << 10;
  int most_lanes = 32;
  bool one_array_each = false;
  bool multimem = false;
  gpu::Puts puts = gpu::Puts::kDriver;
  bool driver_heap = false;
};

// Runs the collective several times. Fails the test if a bit differs.
void RunGroupCase(const GroupCase& test);

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_THUNKS_GPU_GROUP_CASE_H_
