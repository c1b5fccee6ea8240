#include "xla_patch/thunks/aliasing.h"

#include <string.h>

namespace xla_shmem {

bool CopyAskewOperands(const std::vector<char*>& results, const std::vector<size_t>& bytes,
                       std::vector<const char*>* operands, std::vector<std::unique_ptr<char[]>>* copies) {
  bool in_place = false;
  for (size_t i = 0; i < operands->size(); ++i) {
    const char* operand = (*operands)[i];
    bool askew = false;
    for (size_t j = 0; j < results.size(); ++j) {
      const bool overlap = operand < results[j] + bytes[j] && results[j] < operand + bytes[i];
      const bool same = i == j && operand == results[j];
      in_place |= overlap && same;
      askew |= overlap && !same;
    }
    if (!askew) continue;
    copies->push_back(std::make_unique<char[]>(bytes[i]));
    memcpy(copies->back().get(), operand, bytes[i]);
    (*operands)[i] = copies->back().get();
  }
  return in_place;
}

}  // namespace xla_shmem
