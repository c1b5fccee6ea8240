// The table of NVSHMEM host calls that the GPU path uses.
//
// Names, argument orders and constants are those of NVSHMEM 3.8 (OpenSHMEM 1.5 chapter 9 for signals, 9.4 for teams).
// The table points to libnvshmem_host.so.3 (loader.h), in tests to a double (tests/doubles/nvshmem_host_api.h).
//
// Contract:
//   * A `dest` or `sig_addr` is the LOCAL address of a symmetric object; the call reaches the same object on `pe`.
//   * Work on one stream happens in the order it was enqueued. `putmem_signal` delivers the data before the signal.
//   * `source` may be any memory and must stay valid until the call has completed on its stream.
//   * Only `malloc`, `team_split_*`, `team_destroy` and the barriers are collective.
#ifndef XLA_SHMEM_NVSHMEM_API_H_
#define XLA_SHMEM_NVSHMEM_API_H_

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "xla_patch/nvshmem/gpu_reductions.h"

namespace xla_shmem {

// A cudaStream_t; in tests the double's stream.
using StreamHandle = void*;

// nvshmemx_signal_op_t (device_host_transport/nvshmem_common_transport.h).
enum SignalOp : int { kSignalSet = 9, kSignalAdd = 10 };

// NVSHMEM_CMP_* (device_host_transport/nvshmem_constants.h).
enum SignalCompare : int { kCmpEq = 0, kCmpNe = 1, kCmpGt = 2, kCmpLe = 3, kCmpLt = 4, kCmpGe = 5 };

using TeamHandle = int32_t;  // nvshmem_team_t
inline constexpr TeamHandle kTeamInvalid = -1;
inline constexpr TeamHandle kTeamWorld = 0;

// nvshmemx_<type>_<op>_reduce_on_stream: `dest` and `source` are symmetric. 0 on success.
using ReduceOnStream = int (*)(TeamHandle team, void* dest, const void* source, size_t elements, StreamHandle stream);
struct NvshmemApi {
  int (*my_pe)();
  int (*n_pes)();
  void* (*malloc)(size_t bytes);
  void (*free)(void* ptr);
  // Address of `pe`'s copy of the symmetric object `dest` if plain loads reach it, else nullptr.
  void* (*ptr)(const void* dest, int pe);

  void (*putmem_on_stream)(void* dest, const void* source, size_t bytes, int pe, StreamHandle stream);
  void (*putmem_signal_on_stream)(void* dest, const void* source, size_t bytes, uint64_t* sig_addr, uint64_t signal,
                                  int sig_op, int pe, StreamHandle stream);
  void (*signal_op_on_stream)(uint64_t* sig_addr, uint64_t signal, int sig_op, int pe, StreamHandle stream);
  void (*signal_wait_until_on_stream)(uint64_t* sig_addr, int cmp, uint64_t cmp_value, StreamHandle stream);
  void (*quiet_on_stream)(StreamHandle stream);

  int (*barrier_on_stream)(TeamHandle team, StreamHandle stream);
  int (*team_my_pe)(TeamHandle team);
  int (*team_n_pes)(TeamHandle team);
  int (*team_translate_pe)(TeamHandle source_team, int source_pe, TeamHandle destination_team);
  int (*team_split_strided)(TeamHandle parent, int start, int stride, int size, const void* config, long config_mask,
                            TeamHandle* new_team);
  int (*team_split_2d)(TeamHandle parent, int xrange, const void* xaxis_config, long xaxis_mask, TeamHandle* xaxis_team,
                       const void* yaxis_config, long yaxis_mask, TeamHandle* yaxis_team);
  void (*team_destroy)(TeamHandle team);
  // By positions in the lists of gpu_reductions.h. Null if the library lacks the call.
  ReduceOnStream reduce_on_stream[std::size(kGpuElementTypes)][std::size(kGpuReductionKinds)];
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_NVSHMEM_API_H_
