// What the FFI handlers of both roads read from a call: buffers, and the attributes that hlo/rewrite/custom_call.h
// writes.
//
// Everything returns false, with a sentence for the user, on what this xla-shmem cannot have written.
#ifndef XLA_SHMEM_BINDINGS_FFI_CALL_ARGUMENTS_H_
#define XLA_SHMEM_BINDINGS_FFI_CALL_ARGUMENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_patch/types/element_type.h"
#include "xla_patch/types/reduction_kind.h"

namespace xla_shmem {

::xla::ffi::Error ToError(const std::string& text);

// What all calls carry.
struct CallIdentity {
  uint64_t operation = 0;
  std::string name;  // "module/instruction", for errors
};
bool ReadIdentity(::xla::ffi::Dictionary attributes, CallIdentity* call, std::string* error);

// The PEs that a permute connects: source, target, source, target, ...
using PePairs = std::vector<int>;
bool ReadPairs(::xla::ffi::Dictionary attributes, PePairs* pairs, std::string* error);

// The PEs a permute connects `pe` with, -1 for none.
struct Neighbours {
  int source = -1;
  int target = -1;
};
Neighbours FindNeighbours(const PePairs& pairs, int pe);

// PEs of each group, in group order.
using PeGroups = std::vector<std::vector<int>>;
bool ReadGroups(::xla::ffi::Dictionary attributes, PeGroups* groups, std::string* error);

// The group that `pe` is in, or null.
const std::vector<int>* FindGroup(const PeGroups& groups, int pe);
std::string InNoGroup(const std::string& name, int pe);

bool ReadReduction(::xla::ffi::Dictionary attributes, ReductionKind* reduction, std::string* error);

// Operands and results of a call, which come in equal numbers. An operand is `operand_parts` times the bytes that
// `bytes` says, its result `result_parts` times.
struct Buffers {
  std::vector<const char*> operands;
  std::vector<char*> results;
  std::vector<size_t> bytes;
  std::vector<ElementType> types;
};
bool ReadBuffers(::xla::ffi::RemainingArgs arguments, ::xla::ffi::RemainingRets results, size_t operand_parts,
                 size_t result_parts, Buffers* buffers, std::string* error);

// Operands and results that are `parts` pieces of one size each, either as so many arrays or as one that holds them
// all.
bool ReadParts(::xla::ffi::RemainingArgs arguments, ::xla::ffi::RemainingRets results, size_t parts, Buffers* buffers,
               std::string* error);

// Whether `supports` holds for all of `types`.
bool CheckReducible(const std::string& name, const std::vector<ElementType>& types, ReductionKind reduction,
                    bool (*supports)(ElementType, ReductionKind), std::string* error);

// Why an executable with calls for `topology` cannot be loaded into a job that has `own`, or "".
std::string CheckTopology(const ::xla::ffi::ErrorOr<int64_t>& topology, int64_t own);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_FFI_CALL_ARGUMENTS_H_
