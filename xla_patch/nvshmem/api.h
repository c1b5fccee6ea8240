// The table of NVSHMEM host calls that the GPU path uses.
//
// Names, argument orders and constants are those of NVSHMEM 3.8 (OpenSHMEM 1.5 chapter 9 for signals).
// The table points to libnvshmem_host.so.3 (loader.h), in tests to a double (tests/doubles/nvshmem_host_api.h).
//
// Contract:
//   * A `dest` or `sig_addr` is the LOCAL address of a symmetric object; the call reaches the same object on `pe`.
//   * Work on one stream happens in the order it was enqueued. `putmem_signal` delivers the data before the signal.
//   * `source` may be any memory and must stay valid until the call has completed on its stream.
//   * Only `malloc` is collective.
#ifndef XLA_SHMEM_NVSHMEM_API_H_
#define XLA_SHMEM_NVSHMEM_API_H_

#include <cstddef>
#include <cstdint>

namespace xla_shmem {

// A cudaStream_t; in tests the double's stream.
using StreamHandle = void*;

// nvshmemx_signal_op_t (device_host_transport/nvshmem_common_transport.h).
enum SignalOp : int { kSignalSet = 9, kSignalAdd = 10 };

// NVSHMEM_CMP_* (device_host_transport/nvshmem_constants.h).
enum SignalCompare : int { kCmpEq = 0, kCmpNe = 1, kCmpGt = 2, kCmpLe = 3, kCmpLt = 4, kCmpGe = 5 };

using TeamHandle = int32_t;  // nvshmem_team_t
inline constexpr TeamHandle kTeamWorld = 0;

struct NvshmemApi {
  int (*my_pe)();
  int (*n_pes)();
  void* (*malloc)(size_t bytes);
  void (*free)(void* ptr);
  // Address of `pe`'s copy of the symmetric object `dest` if plain loads reach it, else nullptr.
  void* (*ptr)(const void* dest, int pe);
  // Address of the symmetric object at `address` on all PEs of the team at once, for multimem instructions alone.
  // nullptr without NVLink SHARP. Null if the library lacks the call.
  void* (*mc_ptr)(TeamHandle team, const void* address);

  void (*putmem_on_stream)(void* dest, const void* source, size_t bytes, int pe, StreamHandle stream);
  void (*putmem_signal_on_stream)(void* dest, const void* source, size_t bytes, uint64_t* sig_addr, uint64_t signal,
                                  int sig_op, int pe, StreamHandle stream);
  void (*signal_op_on_stream)(uint64_t* sig_addr, uint64_t signal, int sig_op, int pe, StreamHandle stream);
  void (*signal_wait_until_on_stream)(uint64_t* sig_addr, int cmp, uint64_t cmp_value, StreamHandle stream);
  void (*quiet_on_stream)(StreamHandle stream);
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_NVSHMEM_API_H_
