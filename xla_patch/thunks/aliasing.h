// Operands that share memory with results.
#ifndef XLA_SHMEM_THUNKS_ALIASING_H_
#define XLA_SHMEM_THUNKS_ALIASING_H_

#include <cstddef>
#include <memory>
#include <vector>

namespace xla_shmem {

// XLA may give operand i and result i one buffer, and collectives handle that in the order they touch it. Any other
// overlap (operand i with result j, or shifted) would be overwritten before it is read: such operands are copied, and
// `operands` then points to the copies. Returns true if some operand i is exactly result i.
bool CopyAskewOperands(const std::vector<char*>& results, const std::vector<size_t>& bytes,
                       std::vector<const char*>* operands, std::vector<std::unique_ptr<char[]>>* copies);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_ALIASING_H_
