#ifndef XLA_SHMEM_HLO_REWRITE_PASS_H_
#define XLA_SHMEM_HLO_REWRITE_PASS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "xla_patch/assigner/assigner.h"
#include "xla_patch/assigner/record.h"
#include "xla_patch/assigner/topology.h"
#include "xla_patch/assigner/transport.h"

namespace xla_shmem {

// What to put in the place of a collective that goes to SHMEM.
//
//   kNone  nothing: only the attributes are written. `lowered` then says what would be.
//   kCpu   collective-permute -> xla_shmem.collective_permute, all-gather -> xla_shmem.all_gather, and so on
//   kGpu   permutes and all-reduces in the same way, and for a start and a done with work between them, native or
//          generic (async-start), the pairs xla_shmem.permute_start/_done and xla_shmem.all_reduce_start/_done
enum class Lowering { kNone, kCpu, kGpu };

struct PassOptions {
  Options assign;
  Topology topology;
  Transport transport;
  Lowering lowering = Lowering::kNone;
  // XLA forgets which results share a parameter's buffer when it gets a module back (before jax 0.11), and does not
  // mind whose memory it then writes to (XLA:GPU). See hlo/rewrite/aliased_parameters.h.
  bool copy_aliased_parameters = false;
};

struct PassResult {
  bool changed = false;
  std::string module;  // empty when not changed
  std::vector<CollectiveRecord> records;
};

// Decides for every collective of a serialised HloModuleProto (after scheduling) and rewrites it in place. Bytes of
// everything not rewritten, and the ids the schedule uses, stay as they are. The result depends on the arguments only,
// so it is the same on all ranks, and running the pass on its own output changes nothing. Thread-safe; never throws on
// bad input but returns false with `error`.
bool RunPass(std::string_view module, const PassOptions& options, PassResult* result, std::string* error);

// Lists the collectives of any HloModuleProto as it stands, with what this pass or stock XLA wrote about them. Decides
// nothing.
bool InspectModule(std::string_view module, std::vector<CollectiveRecord>* records, std::string* error);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_HLO_REWRITE_PASS_H_
