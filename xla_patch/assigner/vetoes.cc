#include "xla_patch/assigner/vetoes.h"

#include <string>

namespace xla_shmem {
namespace {

constexpr size_t kRaggedOperands = 6;

bool FitsCounts(const CollectiveSpec& spec, size_t num_operands, size_t num_results) {
  if (InfoOf(spec.op).shapes == ShapeRule::kRagged) return num_operands == kRaggedOperands && num_results == 1;
  return num_results != 0 && num_results == num_operands;
}

std::string RaggedMisfit(size_t number, const std::string& members) {
  if (number == 0) return "its input and result differ in more than the number of rows, or a row is not contiguous";
  if (number == 1) return "its output operand and its result differ in shape or layout";
  return "operand " + std::to_string(number) + " is not a row of integers, equally many for each of " + members +
         " devices";
}

std::string Misfit(const CollectiveSpec& spec, size_t number, bool is_one_array) {
  const std::string i = std::to_string(number);
  const std::string members = std::to_string(spec.groups.common_size());
  switch (InfoOf(spec.op).shapes) {
    case ShapeRule::kGathered:
      return "result " + i + " is not the operands of " + members + " devices one after the other in memory";
    case ShapeRule::kScattered:
      return "operand " + i + " is not the results of " + members + " devices one after the other in memory";
    case ShapeRule::kExchanged:
      return is_one_array ? "its array is not " + members + " equal parts one after the other in memory"
                          : "operand and result " + i + " are not alike, or not like the others";
    case ShapeRule::kRagged:
      return RaggedMisfit(number, members);
    case ShapeRule::kSame:
      break;
  }
  return "operand and result " + i + " differ in shape or layout";
}

// XLA:CPU reads `and` and `or` of predicates as minimum and maximum.
bool IsReducedByXlaCpu(ReductionKind reduction, ElementType type) {
  if (reduction == ReductionKind::kAnd || reduction == ReductionKind::kOr) return type == ElementType::kPred;
  return reduction != ReductionKind::kXor;
}

}  // namespace

Unsupported UnsupportedBuffers(const CollectiveSpec& spec, size_t num_operands, size_t num_results,
                               const std::vector<TransferredBuffer>& buffers) {
  if (!FitsCounts(spec, num_operands, num_results)) {
    return std::to_string(num_operands) + " operands for " + std::to_string(num_results) + " results";
  }
  const int64_t members = spec.groups.common_size();
  if (InfoOf(spec.op).Has(op_trait::kEqualGroups) && members == 0) return "its replica groups differ in size";
  const bool is_one_array = num_operands == 1;
  if (InfoOf(spec.op).shapes == ShapeRule::kExchanged && !is_one_array &&
      static_cast<int64_t>(num_operands) != members) {
    return std::to_string(num_operands) + " operands for groups of " + std::to_string(members);
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].is_dynamic) return "it has dynamic dimensions";
    if (buffers[i].is_on_host) return "it works on host memory";
    if (!buffers[i].fits) return Misfit(spec, i, is_one_array);
  }
  return std::nullopt;
}

Unsupported UnsupportedByXlaCpu(const CollectiveSpec& spec) {
  if (InfoOf(spec.op).Has(op_trait::kNotInXlaCpu)) return std::string("XLA:CPU has no thunk for ") + OpName(spec.op);
  if (!spec.reduction.has_value()) return std::nullopt;
  for (const ElementType type : spec.element_types) {
    if (!IsReducedByXlaCpu(*spec.reduction, type)) {
      return "XLA:CPU has no reduction \"" + std::string(ReductionName(spec.reduction)) + "\" for " +
             ElementTypeName(type);
    }
  }
  return std::nullopt;
}

}  // namespace xla_shmem
