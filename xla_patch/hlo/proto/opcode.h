#ifndef XLA_SHMEM_HLO_PROTO_OPCODE_H_
#define XLA_SHMEM_HLO_PROTO_OPCODE_H_

#include <cstdint>
#include <string_view>

#include "xla_patch/assigner/collective_spec.h"

namespace xla_shmem::hlo {

// The opcodes the pass tells apart. A collective is an OpKind in one of three phases.
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
  OpKind kind = OpKind::kAllReduce;  // of the three collective classes
};

Opcode ClassifyOpcode(std::string_view opcode);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_OPCODE_H_
