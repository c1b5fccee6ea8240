// The arguments of the collectives of the GPU path, and the checks that every form of them needs.
#ifndef XLA_SHMEM_THUNKS_GPU_COLLECTIVES_H_
#define XLA_SHMEM_THUNKS_GPU_COLLECTIVES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "xla_patch/nvshmem/gpu/kernels/arguments.h"
#include "xla_patch/types/collective_op.h"
#include "xla_patch/types/element_type.h"
#include "xla_patch/types/reduction_kind.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::gpu {

class Follower;  // thunks/gpu/timeline.h

// Device memory.
struct Buffers {
  std::vector<const char*> operands;
  std::vector<char*> results;
  std::vector<size_t> bytes;  // of each operand and of its result
};

struct PermuteArguments {
  std::string name;  // of the HLO instruction, for errors
  uint32_t tag = 0;  // message_tag.h; 0 is an error
  int source = -1;   // the PE that sends to this one, -1: none (results become zeros, or stay)
  int target = -1;   // the PE that this one sends to, -1: none
  Buffers buffers;
  std::shared_ptr<Follower> follower = nullptr;
  bool keeps_results = false;  // without a source they stay as they are
};

// The other PE at one end of a permute, -1: none. An edge from a PE to itself is a copy and no message.
inline int OtherPe(int end, int pe) { return end == pe ? -1 : end; }

// A collective of a replica group: all but permutes.
//
// `buffers.bytes[i]` is the size of one part of operand i and of result i. With n members:
//
//   op                    operand i  result i
//   all-reduce            one part   one part
//   all-gather            one part   n parts, in group order
//   reduce-scatter        n parts    one part
//   all-to-all            n parts    n parts; or n operands and n results of one part each, one for each member
//   collective-broadcast  one part   one part
//
// A ragged all-to-all has two operands, its input and its output, and one result. `buffers` has the output's pair
// alone.
struct GroupArguments {
  std::string name;  // of the HLO instruction, for errors
  uint32_t tag = 0;  // message_tag.h; 0 is an error
  CollectiveOp op = CollectiveOp::kAllReduce;
  ReductionKind reduction = ReductionKind::kSum;  // of ops that reduce
  // PEs in group order, this one among them. In a broadcast the first one sends. Empty in a broadcast: this PE is in no
  // group, and its results become zeros.
  std::vector<int> group;
  std::vector<ElementType> types;  // of the operands, for ops that reduce
  bool one_array_each = false;     // all-to-all: operands and results are one array for each member
  Buffers buffers;
  RaggedRows ragged{};  // of a ragged all-to-all
  std::shared_ptr<Follower> follower = nullptr;
};

// Error if an operand overlaps a result that is not its own: result i may be operand i if both are equally large.
// `operand_parts`, `result_parts`: how many times `buffers.bytes[i]` they have.
Status CheckOverlaps(const Buffers& buffers, size_t operand_parts = 1, size_t result_parts = 1);

// Error if PE `pe` cannot run this collective: group, number of arrays, element types, reduction, overlaps.
Status CheckGroup(const GroupArguments& group, int pe);

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_THUNKS_GPU_COLLECTIVES_H_
