// The table of collectives. A new collective is a row here, an operation in thunks/ and its handlers in bindings/ffi/.
#ifndef XLA_SHMEM_TYPES_COLLECTIVE_OP_H_
#define XLA_SHMEM_TYPES_COLLECTIVE_OP_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace xla_shmem {

enum class CollectiveOp : uint8_t {
  kAllReduce,
  kCollectivePermute,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kCollectiveBroadcast,
  kRaggedAllToAll,
};

// Bits of CollectiveOpInfo::traits.
namespace op_trait {
inline constexpr uint32_t kReduces = 1;          // has a computation
inline constexpr uint32_t kPairs = 2;            // pairs of source and target say who takes part, not replica groups
inline constexpr uint32_t kStartAndDone = 4;     // HLO has the opcodes <name>-start and <name>-done
inline constexpr uint32_t kGlobalDeviceIds = 8;  // HLO lets its groups list global device ids
inline constexpr uint32_t kEqualGroups = 16;     // its shapes follow from the number of members
inline constexpr uint32_t kOnCpu = 32;           // lowered for XLA:CPU, to `target`
inline constexpr uint32_t kOnGpu = 64;           // lowered for XLA:GPU, to all three targets
inline constexpr uint32_t kNotInXlaCpu = 128;    // XLA:CPU itself has no thunk for it
}  // namespace op_trait

// What an op's result has of its operands.
enum class ShapeRule : uint8_t {
  kSame,       // each result has the shape of its operand
  kGathered,   // a result is the operands of all members, one after the other
  kScattered,  // an operand is the results of all members, one after the other
  kExchanged,  // one array with a part for each member, or an array for each
  kRagged,     // rows, whose numbers are operands too
};

// How a collective whose groups span NVLink domains is divided (assigner/hierarchy.h), named after the ops.
enum class Division : uint8_t { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kPermute, kBroadcast };

struct CollectiveOpInfo {
  CollectiveOp op;
  uint32_t traits;
  ShapeRule shapes;
  std::optional<Division> division;  // none: it is not divided, because `undivided`
  const char* undivided;             // "" if it is divided
  const char* name;                  // HLO's: "all-reduce", never with "-start"
  const char* short_name;            // that the command line also accepts; "" for none
  // Targets of custom calls, "" for none. The first does the whole transfer; the other two are start and done of a
  // transfer that overlaps with other work.
  const char* target;
  const char* start_target;
  const char* done_target;

  constexpr bool Has(uint32_t trait) const { return (traits & trait) != 0; }
};

// In the order of CollectiveOp.
inline constexpr CollectiveOpInfo kCollectiveOps[] = {
    {CollectiveOp::kAllReduce,
     op_trait::kReduces | op_trait::kStartAndDone | op_trait::kGlobalDeviceIds | op_trait::kOnCpu | op_trait::kOnGpu,
     ShapeRule::kSame, Division::kAllReduce, "", "all-reduce", "", "xla_shmem.all_reduce", "xla_shmem.all_reduce_start",
     "xla_shmem.all_reduce_done"},
    {CollectiveOp::kCollectivePermute, op_trait::kPairs | op_trait::kStartAndDone | op_trait::kOnCpu | op_trait::kOnGpu,
     ShapeRule::kSame, Division::kPermute, "", "collective-permute", "permute", "xla_shmem.collective_permute",
     "xla_shmem.permute_start", "xla_shmem.permute_done"},
    {CollectiveOp::kAllGather,
     op_trait::kStartAndDone | op_trait::kGlobalDeviceIds | op_trait::kEqualGroups | op_trait::kOnCpu |
         op_trait::kOnGpu,
     ShapeRule::kGathered, Division::kAllGather, "", "all-gather", "", "xla_shmem.all_gather",
     "xla_shmem.all_gather_start", "xla_shmem.all_gather_done"},
    {CollectiveOp::kReduceScatter,
     op_trait::kReduces | op_trait::kGlobalDeviceIds | op_trait::kEqualGroups | op_trait::kOnCpu | op_trait::kOnGpu,
     ShapeRule::kScattered, Division::kReduceScatter, "", "reduce-scatter", "", "xla_shmem.reduce_scatter",
     "xla_shmem.reduce_scatter_start", "xla_shmem.reduce_scatter_done"},
    {CollectiveOp::kAllToAll, op_trait::kEqualGroups | op_trait::kOnCpu | op_trait::kOnGpu, ShapeRule::kExchanged,
     Division::kAllToAll, "", "all-to-all", "", "xla_shmem.all_to_all", "xla_shmem.all_to_all_start",
     "xla_shmem.all_to_all_done"},
    {CollectiveOp::kCollectiveBroadcast, op_trait::kOnCpu | op_trait::kOnGpu | op_trait::kNotInXlaCpu, ShapeRule::kSame,
     Division::kBroadcast, "", "collective-broadcast", "broadcast", "xla_shmem.collective_broadcast",
     "xla_shmem.broadcast_start", "xla_shmem.broadcast_done"},
    {CollectiveOp::kRaggedAllToAll,
     op_trait::kEqualGroups | op_trait::kOnCpu | op_trait::kOnGpu | op_trait::kNotInXlaCpu, ShapeRule::kRagged,
     std::nullopt, "the sizes of its parts are not known", "ragged-all-to-all", "", "xla_shmem.ragged_all_to_all",
     "xla_shmem.ragged_all_to_all_start", "xla_shmem.ragged_all_to_all_done"},
};

// Target of a custom call that does nothing. It returns its first operand, in the same buffer, and has the result of a
// collective as its second. So whoever needs its result runs after that collective (hlo/rewrite/collective_order.h).
inline constexpr char kAfterTarget[] = "xla_shmem.after";

// Targets of the calls before and behind a collective that stays on the default backend (hlo/rewrite/marks.h). They
// move nothing and only record.
inline constexpr char kBeginTarget[] = "xla_shmem.begin";
inline constexpr char kEndTarget[] = "xla_shmem.end";

// Target of the call with which a program begins in a process with several GPUs (hlo/rewrite/several_gpus.h).
inline constexpr char kMeetTarget[] = "xla_shmem.meet";

// Whether a custom call with this target is one of these.
constexpr bool MovesNothing(std::string_view target) {
  return target == kAfterTarget || target == kBeginTarget || target == kEndTarget || target == kMeetTarget;
}
// Whether a custom call with this target stands for a collective, or for a part of one.
constexpr bool CarriesCollective(std::string_view target) {
  return target.substr(0, 10) == "xla_shmem." && !MovesNothing(target);
}

// Ends the target of a whole collective, or of a part, in a loop of a program that uses several GPUs of a process
// (hlo/rewrite/several_gpus.h). CUDA graphs hold no such call: XLA makes graphs of a loop while the loop runs.
inline constexpr std::string_view kInLoopSuffix = "_in_loop";

constexpr const CollectiveOpInfo& InfoOf(CollectiveOp op) noexcept { return kCollectiveOps[static_cast<size_t>(op)]; }

constexpr const char* OpName(CollectiveOp op) { return InfoOf(op).name; }
// By HLO's name.
std::optional<CollectiveOp> OpNamed(std::string_view name);
constexpr bool IsReducing(CollectiveOp op) { return InfoOf(op).Has(op_trait::kReduces); }
constexpr bool UsesPairs(CollectiveOp op) { return InfoOf(op).Has(op_trait::kPairs); }
// Parts of one size that an operand and a result have; `members`: of the group. Those of an all-to-all may also be so
// many arrays of one part each.
constexpr size_t OperandParts(CollectiveOp op, size_t members) {
  const ShapeRule shapes = InfoOf(op).shapes;
  return shapes == ShapeRule::kScattered || shapes == ShapeRule::kExchanged ? members : 1;
}
constexpr size_t ResultParts(CollectiveOp op, size_t members) {
  const ShapeRule shapes = InfoOf(op).shapes;
  return shapes == ShapeRule::kGathered || shapes == ShapeRule::kExchanged ? members : 1;
}

}  // namespace xla_shmem

#endif  // XLA_SHMEM_TYPES_COLLECTIVE_OP_H_
