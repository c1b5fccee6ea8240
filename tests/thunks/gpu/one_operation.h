// One operation on one PE of a GpuJob, in each of its forms.
#ifndef XLA_SHMEM_TESTS_THUNKS_GPU_ONE_OPERATION_H_
#define XLA_SHMEM_TESTS_THUNKS_GPU_ONE_OPERATION_H_

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tests/thunks/gpu/gpu_job.h"
#include "tests/thunks/gpu/group_case.h"
#include "xla_patch/thunks/gpu/transfers.h"

namespace xla_shmem::testing {

inline constexpr size_t kOneOperationBytes = 6000;

// Operands whose bytes tell the PE, and results that tell whether data has reached them.
struct Results {
  explicit Results(int n_pes) : operands(n_pes), results(n_pes) {
    for (int pe = 0; pe < n_pes; ++pe) {
      operands[pe].assign(8 * kOneOperationBytes, static_cast<char>('a' + pe));
      results[pe].assign(8 * kOneOperationBytes, '-');
    }
  }
  gpu::Buffers Buffers(int pe, size_t bytes = kOneOperationBytes) {
    return {{operands[pe].data()}, {results[pe].data()}, {bytes}};
  }
  bool Untouched(int pe) const {
    return std::all_of(results[pe].begin(), results[pe].end(), [](char c) { return c == '-'; });
  }
  std::vector<std::vector<char>> operands, results;
};

// Enqueues the operation, and fails the test if that is an error. In a graph it is launched once.
void Run(GpuJob::Pe& pe, Form form, const gpu::PermuteArguments& permute);
void Run(GpuJob::Pe& pe, Form form, const gpu::GroupArguments& group);

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_THUNKS_GPU_ONE_OPERATION_H_
