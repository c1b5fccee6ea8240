// What the FFI handlers of both roads read from a call: buffers, and the attributes that hlo/custom_call.h writes.
#ifndef XLA_SHMEM_FFI_CALL_ARGUMENTS_H_
#define XLA_SHMEM_FFI_CALL_ARGUMENTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_patch/thunks/reduction.h"

namespace xla_shmem {

::xla::ffi::Error ToError(const std::string& text);

// Operands and results of a call, which come in equal numbers and shapes.
struct Buffers {
  std::vector<const char*> operands;
  std::vector<char*> results;
  std::vector<size_t> bytes;
  std::vector<::xla::ffi::DataType> types;
};

// False, with a sentence, if the call was not written by this xla-shmem.
bool ReadBuffers(::xla::ffi::RemainingArgs arguments, ::xla::ffi::RemainingRets results, Buffers* buffers,
                 std::string* error);

// "module/name", for errors.
std::string FullName(std::string_view module, std::string_view name);

// The PEs a permute connects `pe` with, -1 for none. `pairs`: source, target, source, target, ...
struct Neighbours {
  int source = -1;
  int target = -1;
};
Neighbours FindNeighbours(::xla::ffi::Span<const int64_t> pairs, int pe);

// Group, types and kind of an all-reduce on `pe`. False, with a sentence that starts with `name`, if one is unknown or
// the PE is in no group.
struct AllReduceAttributes {
  ReductionKind reduction = ReductionKind::kSum;
  std::vector<int> group;
  std::vector<ElementType> types;
};
bool ReadAllReduce(const std::string& name, std::string_view reduction, ::xla::ffi::Span<const int64_t> group_offsets,
                   ::xla::ffi::Span<const int64_t> groups, const std::vector<::xla::ffi::DataType>& types, int pe,
                   AllReduceAttributes* attributes, std::string* error);

// Why an executable with calls for `topology` cannot be loaded into a job that has `own`, or "".
std::string CheckTopology(const ::xla::ffi::ErrorOr<int64_t>& topology, int64_t own);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_FFI_CALL_ARGUMENTS_H_
