#include "xla_patch/thunks/cpu/operand_aliasing.h"

#include <string.h>

namespace xla_shmem {

bool CopyOverlappingOperands(const std::vector<char*>& results, const std::vector<size_t>& result_bytes,
                             const std::vector<char*>& homes, const std::vector<size_t>& operand_bytes,
                             std::vector<const char*>* operands, OperandCopies* copies) {
  bool at_home = false;
  for (size_t i = 0; i < operands->size(); ++i) {
    const char* operand = (*operands)[i];
    const size_t bytes = operand_bytes[i];
    bool askew = false;
    for (size_t j = 0; j < results.size(); ++j) {
      if (operand >= results[j] + result_bytes[j] || results[j] >= operand + bytes) continue;
      const bool home = operand == homes[i] && operand >= results[j] && operand + bytes <= results[j] + result_bytes[j];
      at_home |= home;
      askew |= !home;
    }
    if (!askew) continue;
    copies->push_back(std::make_unique<char[]>(bytes));
    memcpy(copies->back().get(), operand, bytes);
    (*operands)[i] = copies->back().get();
  }
  return at_home;
}

}  // namespace xla_shmem
