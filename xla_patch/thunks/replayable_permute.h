// Collective-permute as a sequence that can be captured once and replayed: every wait and signal has a constant value.
//
// CUDA graphs bake compare values in at capture, so growing counters cannot be used there. Here each word is set by one
// PE, waited for and put back to zero by the other before its next use can be asked for (docs/protocol.md, "Replay"):
//   receiver: grant := 1 at the source;  sender: wait grant = 1, grant := 0, put, arrived := 1;
//   receiver: wait arrived = 1, arrived := 0, copy out - and only then does its next replay grant again.
// All commands go to one stream, which is joined at the end by its own order: no fork survives the sequence.
#ifndef XLA_SHMEM_THUNKS_REPLAYABLE_PERMUTE_H_
#define XLA_SHMEM_THUNKS_REPLAYABLE_PERMUTE_H_

#include <cstddef>
#include <cstdint>

#include "xla_patch/nvshmem/api.h"

namespace xla_shmem {

// Symmetric memory of one replayable permute, zeroed before first use; addresses are local ones.
struct ReplayWords {
  uint64_t* grant;    // set by the target, waited for by us
  uint64_t* arrived;  // set by the source, waited for by us
  char* slot;         // `bytes` long, put into by the source
};

// `source`/`target`: PE that sends to us / that we send to, -1 for none (no source: the result becomes zeros). `result`
// may be `operand`.
void EnqueueReplayablePermute(const TransportApi& api, int me, int source, int target, const ReplayWords& words,
                              const char* operand, char* result, size_t bytes, StreamHandle stream);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_REPLAYABLE_PERMUTE_H_
