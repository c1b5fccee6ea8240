// The parts of a call that the handlers of all ops read: participants, buffers, and the reduction. Every function
// returns an error for a call that this xla-shmem did not write.
#ifndef XLA_SHMEM_BINDINGS_FFI_CPU_CALL_FRAME_H_
#define XLA_SHMEM_BINDINGS_FFI_CPU_CALL_FRAME_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_patch/bindings/ffi/call_arguments.h"
#include "xla_patch/bindings/ffi/cpu/loaded_call.h"
#include "xla_patch/thunks/reduction.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

// One execution of a call on one PE.
struct CallFrame {
  const LoadedCall& call;
  int pe;
  ::xla::ffi::RemainingArgs operands;
  ::xla::ffi::RemainingRets results;
};

Result<const PePairs*> PairsOf(const CallFrame& frame);
Result<const PeGroups*> GroupsOf(const CallFrame& frame);
// The group of this PE, which must be in one.
Result<std::vector<int>> OwnGroup(const CallFrame& frame);
Result<ReductionKind> ReductionOf(const CallFrame& frame);

// Sets the buffers of an op that only moves bytes. An operand is one part, its result `result_parts` parts.
template <typename Arguments>
Status TakeBytes(const CallFrame& frame, size_t result_parts, Arguments* arguments) {
  Result<Buffers> buffers = ReadBuffers(frame.operands, frame.results, 1, result_parts);
  if (!buffers.ok()) return buffers.status();
  arguments->operands = std::move(buffers->operands);
  arguments->results = std::move(buffers->results);
  arguments->bytes = std::move(buffers->bytes);
  return Status();
}

// Sets the buffers, element types and reduction of an op that reduces. An operand is `operand_parts` parts, its result
// one part.
template <typename Arguments>
Status TakeTerms(const CallFrame& frame, size_t operand_parts, Arguments* arguments) {
  const Result<ReductionKind> reduction = ReductionOf(frame);
  if (!reduction.ok()) return reduction.status();
  Result<Buffers> buffers = ReadBuffers(frame.operands, frame.results, operand_parts, 1);
  if (!buffers.ok()) return buffers.status();
  XLA_SHMEM_RETURN_IF_ERROR(CheckReducible(frame.call.identity.name, buffers->types, *reduction, Supports));
  arguments->reduction = *reduction;
  arguments->operands = std::move(buffers->operands);
  arguments->results = std::move(buffers->results);
  arguments->bytes = std::move(buffers->bytes);
  arguments->types = std::move(buffers->types);
  return Status();
}

// Bytes of all operands together.
size_t OperandBytes(const CallFrame& frame);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_FFI_CPU_CALL_FRAME_H_
