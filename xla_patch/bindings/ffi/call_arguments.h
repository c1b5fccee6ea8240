// The parts of a call that the FFI handlers of both platforms read: its buffers, and the attributes that
// hlo/rewrite/call_arguments.h writes. Every function returns an error for a call that this xla-shmem did not write.
#ifndef XLA_SHMEM_BINDINGS_FFI_CALL_ARGUMENTS_H_
#define XLA_SHMEM_BINDINGS_FFI_CALL_ARGUMENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_patch/runtime/observe/flight_recorder.h"
#include "xla_patch/types/element_type.h"
#include "xla_patch/types/reduction_kind.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

// `status` must be an error.
::xla::ffi::Error ToError(const Status& status);

// Attributes of every call.
struct CallIdentity {
  uint64_t operation = 0;
  std::string name;    // "module/instruction"
  std::string source;  // "file:line"; "" if the module does not name it

  // For errors: "module/instruction at file:line".
  std::string Label() const { return source.empty() ? name : name + " at " + source; }
};
Result<CallIdentity> ReadIdentity(::xla::ffi::Dictionary attributes);
// Empty on GPUs.
Result<observe::Origin> ReadOrigin(::xla::ffi::Dictionary attributes);

Result<std::string> ReadString(::xla::ffi::Dictionary attributes, const char* name);
Result<int64_t> ReadInt(::xla::ffi::Dictionary attributes, const char* name);
Result<std::vector<int64_t>> ReadInts(::xla::ffi::Dictionary attributes, const char* name);

// The PEs that a permute connects: source, target, source, target, ...
using PePairs = std::vector<int>;
Result<PePairs> ReadPairs(::xla::ffi::Dictionary attributes);

// The PEs that a permute connects with `pe`; -1 for none.
struct Neighbours {
  int source = -1;
  int target = -1;
};
Neighbours FindNeighbours(const PePairs& pairs, int pe);

// PEs of each group, in group order.
using PeGroups = std::vector<std::vector<int>>;
// Source and target of each pair.
PeGroups AsGroups(const PePairs& pairs);
Result<PeGroups> ReadGroups(::xla::ffi::Dictionary attributes);

// The group of `pe`, or null.
const std::vector<int>* FindGroup(const PeGroups& groups, int pe);
// The group of `pe`, which must be in one. `name`: of the call.
Result<std::vector<int>> GroupOf(const PeGroups& groups, int pe, const std::string& name);

Result<ReductionKind> ReadReduction(::xla::ffi::Dictionary attributes);

// Operands and results of a call.
struct Buffers {
  std::vector<const char*> operands;
  std::vector<char*> results;
  std::vector<size_t> bytes;       // of one part of an operand and of its result
  std::vector<ElementType> types;  // only if asked for
};
// As many operands as results. An operand has `operand_parts` parts, its result `result_parts`.
Result<Buffers> ReadBuffers(::xla::ffi::RemainingArgs arguments, ::xla::ffi::RemainingRets results,
                            size_t operand_parts, size_t result_parts, bool with_types);

// `parts` operands and `parts` results of one size, each side either as so many arrays or as one array that holds them.
// Without element types.
Result<Buffers> ReadParts(::xla::ffi::RemainingArgs arguments, ::xla::ffi::RemainingRets results, size_t parts);

// An error unless all of `types` support the reduction. `name`: of the call.
Status CheckReducible(const std::string& name, const std::vector<ElementType>& types, ReductionKind reduction);

// An error if an executable with calls for `topology` cannot run in a job whose topology is `own`.
Status CheckTopology(const ::xla::ffi::ErrorOr<int64_t>& topology, int64_t own);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_FFI_CALL_ARGUMENTS_H_
