#ifndef XLA_SHMEM_HLO_PROTO_OPCODE_H_
#define XLA_SHMEM_HLO_PROTO_OPCODE_H_

#include <cstdint>
#include <string_view>

#include "xla_patch/types/collective_op.h"

namespace xla_shmem::hlo {

// The opcodes the pass tells apart. A collective has three classes, one for each of its phases.
enum class OpClass : uint8_t {
  kOther,
  kCollective,  // sync form, or the only instruction of an async computation
  kCollectiveStart,
  kCollectiveDone,
  kAsyncStart,  // generic: wraps a called computation
  kAsyncUpdate,
  kAsyncDone,  // it and the update may name the same computation again
  kWhile,
  kConditional,
  kFusion,
  kCustomCall,
};

struct Opcode {
  OpClass op_class = OpClass::kOther;
  CollectiveOp collective = CollectiveOp::kAllReduce;  // of the three collective classes
};

Opcode ClassifyOpcode(std::string_view opcode);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_OPCODE_H_
