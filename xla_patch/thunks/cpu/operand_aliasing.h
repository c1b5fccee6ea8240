// Operands that share memory with results.
#ifndef XLA_SHMEM_THUNKS_CPU_OPERAND_ALIASING_H_
#define XLA_SHMEM_THUNKS_CPU_OPERAND_ALIASING_H_

#include <cstddef>
#include <memory>
#include <vector>

namespace xla_shmem {

using OperandCopies = std::vector<std::unique_ptr<char[]>>;

// XLA may give an operand and a result the same buffer. A collective supports this if operand i begins exactly at
// `in_place_at[i]` (null: not supported). With any other overlap, a result would overwrite the operand before it is
// read, so the operand is copied and `operands` then points to the copy. Returns true if an operand is in place in a
// result.
bool CopyOverlappingOperands(const std::vector<char*>& results, const std::vector<size_t>& result_bytes,
                             const std::vector<char*>& in_place_at, const std::vector<size_t>& operand_bytes,
                             std::vector<const char*>* operands, OperandCopies* copies);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_OPERAND_ALIASING_H_
