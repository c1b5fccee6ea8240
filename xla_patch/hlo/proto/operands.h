#ifndef XLA_SHMEM_HLO_PROTO_OPERANDS_H_
#define XLA_SHMEM_HLO_PROTO_OPERANDS_H_

#include <cstdint>
#include <vector>

#include "xla_patch/hlo/proto/module_reader.h"

namespace xla_shmem::hlo {

// The ids of the instruction's operands. False if they are malformed.
bool DecodeOperands(const Instruction& instruction, std::vector<int64_t>* operand_ids);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_OPERANDS_H_
