#ifndef XLA_SHMEM_HLO_PASS_H_
#define XLA_SHMEM_HLO_PASS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "xla_patch/assigner/assigner.h"
#include "xla_patch/assigner/topology.h"
#include "xla_patch/assigner/transport.h"

namespace xla_shmem {

// What to put in the place of a collective that goes to SHMEM.
//
//   kNone  nothing: only the attributes are written. `lowered` then says what would be.
//   kCpu   collective-permute -> xla_shmem.collective_permute, all-reduce -> xla_shmem.all_reduce
//   kGpu   the same, and for a start and a done with work between them, native or generic (async-start), the pairs
//          xla_shmem.permute_start/_done and xla_shmem.all_reduce_start/_done
enum class Lowering { kNone, kCpu, kGpu };

struct PassOptions {
  Options assign;
  Topology topology;
  Transport transport;
  Lowering lowering = Lowering::kNone;
  // XLA forgets which results share a parameter's buffer when it gets a module back (before jax 0.11), and does not
  // mind whose memory it then writes to (XLA:GPU). See hlo/aliased_parameters.h.
  bool copy_aliased_parameters = false;
};

// One row of the table: one collective, a start/done pair being one.
struct CollectiveRecord {
  std::string name;        // HLO name of the op, or of its start
  std::string op;          // "all-reduce", without "-start"
  std::string dtype;       // "f32"; "f32,bf16" for a mixed combined one
  int64_t bytes = 0;       // of the result, tuple elements summed
  int64_t num_groups = 0;  // of a permute: sets of devices connected by pairs
  int64_t group_size = 0;  // of the largest group, in devices; 0 where not known
  int64_t num_pairs = 0;
  std::string reduction;  // all-reduce: "sum", ..., or "none" if not a plain one
  std::string backend;    // "NVSHMEM" or "DEFAULT": the decision
  std::string lowered;    // the same after vetoes
  std::string veto;       // why a decided NVSHMEM is not carried out; "" if it is
  std::string rule;
  std::string reason;
  std::string computation;
  bool in_loop = false;     // runs inside a while loop
  std::string source_file;  // from inline metadata, else ""
  int64_t source_line = 0;
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

#endif  // XLA_SHMEM_HLO_PASS_H_
