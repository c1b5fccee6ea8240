// What the handlers of all ops read from a call: who takes part, buffers, and the reduction.
//
// The functions return false, with the error, if the call was not written by this xla-shmem.
#ifndef XLA_SHMEM_BINDINGS_FFI_CPU_CALL_FRAME_H_
#define XLA_SHMEM_BINDINGS_FFI_CPU_CALL_FRAME_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_patch/bindings/ffi/call_arguments.h"
#include "xla_patch/bindings/ffi/cpu/loaded_call.h"
#include "xla_patch/thunks/reduction.h"

namespace xla_shmem {

// One execution of a call on one PE.
struct CallFrame {
  const LoadedCall& call;
  int pe;
  ::xla::ffi::RemainingArgs operands;
  ::xla::ffi::RemainingRets results;
};

// The call's pairs, groups or reduction.
bool TakePairs(const CallFrame& frame, const PePairs** pairs, std::string* error);
bool TakeGroups(const CallFrame& frame, const PeGroups** groups, std::string* error);
bool TakeReduction(const CallFrame& frame, ReductionKind* reduction, std::string* error);

// The group of this PE, which must be in one.
bool TakeGroup(const CallFrame& frame, std::vector<int>* group, std::string* error);

// The buffers of an op that moves bytes. An operand is one part of its bytes, its result `result_parts` parts.
template <typename Arguments>
bool TakeBytes(const CallFrame& frame, size_t result_parts, Arguments* arguments, std::string* error) {
  Buffers buffers;
  if (!ReadBuffers(frame.operands, frame.results, 1, result_parts, &buffers, error)) return false;
  arguments->operands = std::move(buffers.operands);
  arguments->results = std::move(buffers.results);
  arguments->bytes = std::move(buffers.bytes);
  return true;
}

// The buffers, element types and reduction of a reducing op. An operand is `operand_parts` parts, its result one.
template <typename Arguments>
bool TakeTerms(const CallFrame& frame, size_t operand_parts, Arguments* arguments, std::string* error) {
  Buffers buffers;
  if (!TakeReduction(frame, &arguments->reduction, error) ||
      !ReadBuffers(frame.operands, frame.results, operand_parts, 1, &buffers, error) ||
      !CheckReducible(arguments->name, buffers.types, arguments->reduction, Supports, error)) {
    return false;
  }
  arguments->operands = std::move(buffers.operands);
  arguments->results = std::move(buffers.results);
  arguments->bytes = std::move(buffers.bytes);
  arguments->types = std::move(buffers.types);
  return true;
}

// Bytes of all operands together.
size_t OperandBytes(const CallFrame& frame);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_FFI_CPU_CALL_FRAME_H_
