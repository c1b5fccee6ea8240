// The arguments of the collectives of the GPU path, and the checks that every form of them needs.
#ifndef XLA_SHMEM_THUNKS_GPU_COLLECTIVES_H_
#define XLA_SHMEM_THUNKS_GPU_COLLECTIVES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "xla_patch/types/element_type.h"
#include "xla_patch/types/reduction_kind.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::gpu {

// Device memory.
struct Buffers {
  std::vector<const char*> operands;
  std::vector<char*> results;
  std::vector<size_t> bytes;  // of each operand and of its result
};

struct PermuteArguments {
  std::string name;  // of the HLO instruction, for errors
  int source = -1;   // the PE that sends to this one, -1: none (results become zeros)
  int target = -1;   // the PE that this one sends to, -1: none
  Buffers buffers;
};

struct AllReduceArguments {
  std::string name;
  ReductionKind reduction = ReductionKind::kSum;
  std::vector<int> group;  // PEs in group order, this one among them
  std::vector<ElementType> types;
  Buffers buffers;
};

// Error if an operand overlaps a result that is not its own: result i may be operand i.
Status CheckOverlaps(const Buffers& buffers);

// Error if PE `pe` cannot run this all-reduce: group, element types, reduction, overlaps.
Status CheckAllReduce(const AllReduceArguments& all_reduce, int pe);

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_THUNKS_GPU_COLLECTIVES_H_
