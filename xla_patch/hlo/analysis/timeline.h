#ifndef XLA_SHMEM_HLO_ANALYSIS_TIMELINE_H_
#define XLA_SHMEM_HLO_ANALYSIS_TIMELINE_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "xla_patch/hlo/analysis/work.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

// One step of a computation, with what one execution of it takes; see hlo/analysis/work.h. Views point into the module.
struct ScheduledInstruction {
  std::string_view name;
  std::string_view opcode;
  hlo::WorkKind kind = hlo::WorkKind::kCompute;
  std::vector<std::string_view> called;  // by kControl: names of computations; a while's body, then its condition
  int64_t flops = 0;                     // -1 where not known
  int64_t bytes = 0;                     // -1 where not known
  std::string_view start;                // of a done: what it waits for; else ""
};

struct ComputationSchedule {
  std::string_view name;
  int64_t executions = 0;  // in one run of the module; -1 where that is not known
  bool in_loop = false;
  bool is_scheduled = false;  // else the order is that of the module, which is one in which it could run
  std::vector<ScheduledInstruction> instructions;
};

// The order in which a module's instructions run, by computation: the entry, which is last, and all that loops, calls
// and branches lead to from there. What fusions, reductions and async wrappers hold runs as one instruction and is not
// listed. An error if the bytes are not a well-formed HloModuleProto.
Result<std::vector<ComputationSchedule>> ReadTimeline(std::string_view module);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_HLO_ANALYSIS_TIMELINE_H_
