#include "xla_patch/thunks/cpu/error_text.h"

namespace xla_shmem {

std::string NameExecution(CollectiveOp op, const std::string& name, size_t bytes, size_t members, int pe,
                          const MessageKey& key) {
  return std::string(OpName(op)) + " " + name + " (" + std::to_string(bytes) + " bytes" +
         (members == 0 ? "" : ", " + std::to_string(members) + " PEs") + ") on PE " + std::to_string(pe) +
         ", execution " + std::to_string(key.execution & 0xffffffff);
}

std::string NameMissing(const std::set<int>& missing) {
  std::string text;
  const char* before = "; not arrived at this operation: PE ";
  for (int pe : missing) {
    text += before + std::to_string(pe);
    before = ", ";
  }
  return text;
}

}  // namespace xla_shmem
