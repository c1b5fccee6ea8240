// The collectives on CPU, but for ragged all-to-alls (ragged_all_to_all.h). docs/protocol.md has a section for each.
//
// Small all-reduces use one-shot: every member sends its operands to all others, and each reduces all of them, in group
// order. Larger ones use two-shot: every member owns one part of the buffers. The members send the parts to their
// owners, which reduce them in group order and send the results to all, piece by piece. In both cases all members
// compute the same bits. All other collectives send one message a pair of PEs, in its final place or to the member that
// reduces it, and need no rounds and no barrier.
//
// Results may share memory with operands in any way. What the messages would overwrite is copied first; nothing is
// copied if an operand begins exactly at its result, or in an all-gather at its part of the result.
#ifndef XLA_SHMEM_THUNKS_CPU_COLLECTIVES_H_
#define XLA_SHMEM_THUNKS_CPU_COLLECTIVES_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "xla_patch/shm/operation.h"
#include "xla_patch/thunks/cpu/message_key.h"
#include "xla_patch/thunks/cpu/pe_context.h"
#include "xla_patch/types/collective_op.h"
#include "xla_patch/types/element_type.h"
#include "xla_patch/types/reduction_kind.h"

namespace xla_shmem {

// One execution of a collective on the local PE.
struct CollectiveArguments {
  CollectiveOp op = CollectiveOp::kAllReduce;
  MessageKey key{};
  std::string name;  // of the HLO instruction, for errors
  // PEs in group order, with the local PE. Of a broadcast: the root first, and empty if the local PE is in no group:
  // its results become zeros. Not of a permute.
  std::vector<int> group;
  // A combined collective has several operands. An all-to-all has as many for each member, one member after the other:
  // what goes to that member, and what comes from it.
  std::vector<const char*> operands;
  std::vector<char*> results;
  // Of one part of each operand and of its result (OperandParts, ResultParts); of an all-to-all for one member.
  std::vector<size_t> bytes;
  // Of ops that reduce.
  ReductionKind reduction = ReductionKind::kSum;
  std::vector<ElementType> types;
  // Of a permute. The results of a PE without a source become zeros.
  int source = -1;  // PE that sends to the local PE, which it may be itself; -1: none
  int target = -1;  // PE that the local PE sends to, -1: none
  // Source and target of all pairs, one after the other. Not needed where no other PE is in this process.
  std::vector<int> pairs;
};

// The largest operands of an all-reduce, in padded bytes, that use one-shot. A PE then sends (n-1) times the operands
// instead of 2(n-1)/n times, in one exchange instead of two. `have_shared_buffers`: of all members, so that they agree
// (CrossMemoryReader).
size_t OneShotLimitBytes(size_t group_size, bool have_shared_buffers);

// Within this process if the whole group is, or all PEs whose pairs lead to this PE's. Else by messages.
std::unique_ptr<Operation> MakeOperation(const PeContext* context, CollectiveArguments&& arguments);

// By messages, also between PEs of one process.
std::unique_ptr<Operation> MakeMessageOperation(const PeContext* context, CollectiveArguments&& arguments);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_COLLECTIVES_H_
