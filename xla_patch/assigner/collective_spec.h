#ifndef XLA_SHMEM_ASSIGNER_COLLECTIVE_SPEC_H_
#define XLA_SHMEM_ASSIGNER_COLLECTIVE_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xla_patch/assigner/topology.h"

namespace xla_shmem {

enum class OpKind {
  kAllReduce,
  kCollectivePermute,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kCollectiveBroadcast,
  kRaggedAllToAll,
};
const char* OpName(OpKind op);  // "all-reduce", never with "-start"
std::optional<OpKind> OpNamed(std::string_view name);

// Whether its computation is part of what it is: all-reduce and reduce-scatter.
bool IsReducing(OpKind op);

enum class Reduction { kNone, kSum, kProd, kMin, kMax, kAnd, kOr, kXor };
const char* ReductionName(Reduction reduction);  // "sum", ...; "none" also stands for an unknown computation

// XLA's PrimitiveType numbers (xla/xla_data.proto). Any number may occur; these are the ones the code names.
namespace element_type {
constexpr int32_t kPred = 1, kS8 = 2, kS16 = 3, kS32 = 4, kS64 = 5, kU8 = 6, kU16 = 7, kU32 = 8, kU64 = 9, kF16 = 10,
                  kF32 = 11, kF64 = 12, kTuple = 13, kOpaque = 14, kC64 = 15, kBF16 = 16, kToken = 17, kC128 = 18,
                  kF8E5M2 = 19, kF8E4M3FN = 20, kF8E4M3B11FNUZ = 23, kF8E5M2FNUZ = 24, kF8E4M3FNUZ = 25, kF8E4M3 = 28,
                  kF8E3M4 = 29, kF8E8M0FNU = 33;
}  // namespace element_type
std::string ElementTypeName(int32_t type);  // "f32"; "type77" for a number that is not known
std::optional<int32_t> ElementTypeNamed(std::string_view name);
// Bits of one element; 0 for tuples, tokens, opaques, buffers and unknown numbers.
int32_t ElementTypeBits(int32_t type);

// Groups of global device ids: group i is devices[offsets[i], offsets[i + 1]).
struct DeviceGroups {
  std::vector<int64_t> devices;
  std::vector<int64_t> offsets = {0};
  int64_t size() const { return static_cast<int64_t>(offsets.size()) - 1; }
  // Members of each group; 0 if there are none, or if groups differ in size.
  int64_t common_size() const;
};

// One collective, free of XLA: what the rules and the transport look at. Both readers (wire-level proto and
// xla::HloInstruction) fill it.
struct CollectiveSpec {
  OpKind op = OpKind::kAllReduce;
  std::string name;                    // HLO name, for sentences only
  int64_t bytes = 0;                   // result bytes, tuple elements summed
  std::vector<int32_t> element_types;  // one per result element, in order
  Reduction reduction = Reduction::kNone;
  DeviceGroups groups;                             // empty for a permute
  std::vector<std::pair<int64_t, int64_t>> pairs;  // source and target device; only for a permute
  ModulePlacement module;
  std::string unresolved;  // not empty: groups or pairs could not be read, and why
};

// How many groups take part, and the devices of the largest. Sets of devices that pairs connect, rings and chains, are
// to a permute what groups are to the others.
struct GroupCount {
  int64_t number = 0;
  int64_t largest = 0;
};
GroupCount CountGroups(const CollectiveSpec& spec);

// "f32", or "f32,bf16" with each type once in order of appearance.
std::string ElementTypeNames(const std::vector<int32_t>& types);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_ASSIGNER_COLLECTIVE_SPEC_H_
