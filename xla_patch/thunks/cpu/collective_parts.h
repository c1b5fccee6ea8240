// The parts within an NVLink domain of collectives that are divided (hlo/rewrite/hierarchical_collective.h).
//
// Every PE has positions: numbers of parts of the whole arrays. It has these parts, in this order, in its vectors. They
// are results of a reduce-scatter and an all-to-all, and operands of an all-gather.
#ifndef XLA_SHMEM_THUNKS_CPU_COLLECTIVE_PARTS_H_
#define XLA_SHMEM_THUNKS_CPU_COLLECTIVE_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "xla_patch/thunks/cpu/collective_operation.h"
#include "xla_patch/thunks/cpu/part_layout.h"
#include "xla_patch/thunks/reduction.h"

namespace xla_shmem {

// Fields of all of them.
struct PartArguments {
  MessageKey key;
  std::string name;        // of the HLO instruction, for errors
  std::vector<int> group;  // PEs, with the local PE
  Arrays<const char*> operands;
  Arrays<char*> results;
  size_t part_bytes = 0;
  std::vector<std::vector<int64_t>> positions;  // of each PE of `group`
};

// Every PE reduces its parts of the operands of all PEs, in group order. Bytes of the vectors that the whole arrays do
// not have become zeros. All arrays have one type.
struct ReduceScatterPartsArguments : PartArguments {
  ReductionKind reduction = ReductionKind::kSum;
  ElementType type = ElementType::kF32;
};

// Every PE gets the parts of all PEs. With a group of one it puts its own parts in their places.
struct AllGatherPartsArguments : PartArguments {};

// Every PE sends each PE of the group this one's parts of its operand. In the vectors the parts of one position follow
// one another in group order.
struct AllToAllPartsArguments : PartArguments {};

// Reduces the parts of the operands, each as large as the only result, into it. No message is sent.
struct ReducePartsArguments : PartArguments {
  ReductionKind reduction = ReductionKind::kSum;
  ElementType type = ElementType::kF32;
};

// A permute between PEs of one domain. What came from other domains is an operand.
struct PermutePartsArguments {
  MessageKey key;
  std::string name;  // of the HLO instruction, for errors
  int source = -1;   // PE of this domain that sends to the local PE, -1: none
  int target = -1;   // PE of this domain that the local PE sends to, -1: none
  const char* operand = nullptr;
  const char* received = nullptr;  // from another domain; null: nothing, and without a source the result is zeros
  char* result = nullptr;
  size_t bytes = 0;
};

std::unique_ptr<Operation> MakeOperation(const PeContext* context, ReduceScatterPartsArguments arguments);
std::unique_ptr<Operation> MakeOperation(const PeContext* context, AllGatherPartsArguments arguments);
std::unique_ptr<Operation> MakeOperation(const PeContext* context, AllToAllPartsArguments arguments);
std::unique_ptr<Operation> MakeOperation(const PeContext* context, ReducePartsArguments arguments);
std::unique_ptr<Operation> MakeOperation(const PeContext* context, PermutePartsArguments arguments);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_COLLECTIVE_PARTS_H_
