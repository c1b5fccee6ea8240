#ifndef XLA_SHMEM_ASSIGNER_OBSTACLE_H_
#define XLA_SHMEM_ASSIGNER_OBSTACLE_H_

#include <cstddef>
#include <string>
#include <vector>

namespace xla_shmem {

// What no SHMEM transport does, whatever the ids and types: both readers find it out, and it is said in one way.
constexpr const char* kPermutesSlices = "it permutes slices in place";

// One operand and the result of the same number.
struct TransferredBuffer {
  bool is_dynamic = false;   // some dimension is only an upper bound
  bool is_on_host = false;   // one of them lies in host memory
  bool same_layout = false;  // equal in type, dimensions and physical order, so that bytes can be copied
};

// Why these buffers cannot be transferred, or "". `buffers` may end where either runs out.
std::string BufferObstacle(size_t num_operands, size_t num_results, const std::vector<TransferredBuffer>& buffers);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_ASSIGNER_OBSTACLE_H_
