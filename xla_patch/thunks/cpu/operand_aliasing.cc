#include "xla_patch/thunks/cpu/operand_aliasing.h"

#include <string.h>

namespace xla_shmem {

bool CopyOverlappingOperands(const std::vector<char*>& results, const std::vector<size_t>& result_bytes,
                             const std::vector<char*>& in_place_at, const std::vector<size_t>& operand_bytes,
                             std::vector<const char*>* operands, OperandCopies* copies) {
  bool any_in_place = false;
  for (size_t i = 0; i < operands->size(); ++i) {
    const char* operand = (*operands)[i];
    const size_t bytes = operand_bytes[i];
    bool needs_copy = false;
    for (size_t j = 0; j < results.size(); ++j) {
      if (operand >= results[j] + result_bytes[j] || results[j] >= operand + bytes) continue;
      const bool is_in_place =
          operand == in_place_at[i] && operand >= results[j] && operand + bytes <= results[j] + result_bytes[j];
      any_in_place |= is_in_place;
      needs_copy |= !is_in_place;
    }
    if (!needs_copy) continue;
    copies->push_back(std::make_unique<char[]>(bytes));
    memcpy(copies->back().get(), operand, bytes);
    (*operands)[i] = copies->back().get();
  }
  return any_in_place;
}

}  // namespace xla_shmem
