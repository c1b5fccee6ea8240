#ifndef XLA_SHMEM_HLO_REWRITE_PASS_H_
#define XLA_SHMEM_HLO_REWRITE_PASS_H_

#include <string>
#include <string_view>
#include <vector>

#include "xla_patch/assigner/record.h"
#include "xla_patch/hlo/rewrite/pass_options.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

struct PassResult {
  bool changed = false;
  std::string module;  // empty when not changed
  std::vector<CollectiveRecord> records;
  std::string unread;  // of PassHook: why the pass could not read the module, which stays as it is; else empty
};

// Decides for every collective of a serialised HloModuleProto (after scheduling) and rewrites it in place. Bytes of
// everything not rewritten, and the ids the schedule uses, stay as they are. The result depends on the arguments only,
// so it is the same on all ranks, and running the pass on its own output changes nothing. Thread-safe. An error, never
// an exception, if the bytes are not a well-formed module, or its collectives cannot be put in the order that the
// options ask for.
Result<PassResult> RunPass(std::string_view module, const PassOptions& options);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_HLO_REWRITE_PASS_H_
