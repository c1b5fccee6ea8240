#include "xla_patch/assigner/obstacle.h"

namespace xla_shmem {

std::string BufferObstacle(size_t num_operands, size_t num_results, const std::vector<TransferredBuffer>& buffers) {
  if (num_results == 0 || num_results != num_operands) {
    return std::to_string(num_operands) + " operands for " + std::to_string(num_results) + " results";
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].is_dynamic) {
      return "it has dynamic dimensions";
    }
    if (buffers[i].is_on_host) {
      return "it works on host memory";
    }
    if (!buffers[i].same_layout) {
      return "operand and result " + std::to_string(i) + " differ in shape or layout";
    }
  }
  return "";
}

}  // namespace xla_shmem
