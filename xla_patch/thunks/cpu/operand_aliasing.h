// Operands that share memory with results.
#ifndef XLA_SHMEM_THUNKS_CPU_OPERAND_ALIASING_H_
#define XLA_SHMEM_THUNKS_CPU_OPERAND_ALIASING_H_

#include <cstddef>
#include <memory>
#include <vector>

namespace xla_shmem {

using OperandCopies = std::vector<std::unique_ptr<char[]>>;

// XLA may give an operand and a result one buffer. A collective copes with that where operand i lies exactly at
// `homes[i]` (null: nowhere), in the order in which it touches memory. In any other overlap, with whichever result, the
// operand would be overwritten before it is read: it is copied, and `operands` then points to the copy. Returns true if
// some operand is at home in a result.
bool CopyOverlappingOperands(const std::vector<char*>& results, const std::vector<size_t>& result_bytes,
                             const std::vector<char*>& homes, const std::vector<size_t>& operand_bytes,
                             std::vector<const char*>* operands, OperandCopies* copies);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_OPERAND_ALIASING_H_
