// Parts of the texts of errors that all collectives share.
#ifndef XLA_SHMEM_THUNKS_CPU_ERROR_TEXT_H_
#define XLA_SHMEM_THUNKS_CPU_ERROR_TEXT_H_

#include <cstddef>
#include <set>
#include <string>

#include "xla_patch/thunks/cpu/message_key.h"
#include "xla_patch/types/collective_op.h"

namespace xla_shmem {

// "all-reduce jit_f/psum.1 (400 bytes, 2 PEs) on PE 0, execution 3". `bytes`: of the operands. `members`: of the group;
// 0 if it says nothing.
std::string NameExecution(CollectiveOp op, const std::string& name, size_t bytes, size_t members, int pe,
                          const MessageKey& key);

// "; not arrived at this operation: PE 1, 3"; "" if `missing` is empty.
std::string NameMissing(const std::set<int>& missing);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_ERROR_TEXT_H_
