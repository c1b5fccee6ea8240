// What all collectives on CPU are made of (docs/protocol.md, "A collective").
#ifndef XLA_SHMEM_THUNKS_COLLECTIVE_OPERATION_H_
#define XLA_SHMEM_THUNKS_COLLECTIVE_OPERATION_H_

#include "xla_patch/nvshmem/operation.h"
#include "xla_patch/thunks/channel.h"

namespace xla_shmem {

class CollectiveOperation : public Operation {};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_COLLECTIVE_OPERATION_H_
