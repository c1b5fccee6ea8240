#ifndef XLA_SHMEM_HLO_REWRITE_PASS_OPTIONS_H_
#define XLA_SHMEM_HLO_REWRITE_PASS_OPTIONS_H_

#include "xla_patch/assigner/assigner.h"
#include "xla_patch/assigner/topology.h"
#include "xla_patch/assigner/transport.h"

namespace xla_shmem {

// The replacement of a collective that goes to SHMEM.
//
//   kNone  nothing: only attributes are written. `lowered` then says which backend would carry it.
//   kCpu   collective-permute -> xla_shmem.collective_permute, all-gather -> xla_shmem.all_gather, and so on
//   kGpu   in the same way; a start and a done with work between them, native or generic (async-start), become pairs
//          such as xla_shmem.all_gather_start/_done
enum class Lowering { kNone, kCpu, kGpu };

struct PassOptions {
  Options assign;
  Topology topology;
  Transport transport;
  Lowering lowering = Lowering::kNone;
  // Before jax 0.11, XLA drops the aliasing of results and parameters when a transform returns a module, and XLA:GPU
  // then writes to the caller's memory. See hlo/rewrite/aliased_parameters.h.
  bool copy_aliased_parameters = false;
  // Puts the collectives of a module of XLA:CPU in one order, for jobs in which each keeps XLA's thread until it has
  // finished. See hlo/rewrite/collective_order.h.
  bool one_at_a_time = false;
  // Puts calls around the collectives of XLA:CPU that stay on the default backend. See hlo/rewrite/marks.h.
  bool mark_default_collectives = false;
  // Before jax 0.11 a module that the pass returns loses the aliasing of results and parameters, so XLA:CPU donates no
  // memory. Marks alone are not worth that.
  bool marks_keep_aliasing = false;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_HLO_REWRITE_PASS_OPTIONS_H_
