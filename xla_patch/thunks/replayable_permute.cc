#include "xla_patch/thunks/replayable_permute.h"

namespace xla_shmem {

void EnqueueReplayablePermute(const TransportApi& api, int me, int source, int target, const ReplayWords& words,
                              const char* operand, char* result, size_t bytes, StreamHandle stream) {
  const NvshmemApi& shmem = api.shmem;
  if (source >= 0) shmem.signal_op_on_stream(words.grant, 1, kSignalSet, source, stream);
  if (target >= 0) {
    shmem.signal_wait_until_on_stream(words.grant, kCmpEq, 1, stream);
    shmem.signal_op_on_stream(words.grant, 0, kSignalSet, me, stream);
    shmem.putmem_signal_on_stream(words.slot, operand, bytes, words.arrived, 1, kSignalSet, target, stream);
    shmem.quiet_on_stream(stream);
  }
  if (source >= 0) {
    shmem.signal_wait_until_on_stream(words.arrived, kCmpEq, 1, stream);
    shmem.signal_op_on_stream(words.arrived, 0, kSignalSet, me, stream);
    api.stream.memcpy_async(result, words.slot, bytes, stream);
  } else {
    api.stream.memset_async(result, 0, bytes, stream);
  }
}

}  // namespace xla_shmem
