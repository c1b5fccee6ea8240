#ifndef XLA_SHMEM_HLO_ANALYSIS_TIMELINE_H_
#define XLA_SHMEM_HLO_ANALYSIS_TIMELINE_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "xla_patch/hlo/analysis/work.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

// One instruction of a schedule, with the work of one execution; see hlo/analysis/work.h. Views point into the module.
struct ScheduledInstruction {
  std::string_view name;
  std::string_view opcode;
  hlo::WorkKind kind = hlo::WorkKind::kCompute;
  std::vector<std::string_view> called;  // by kControl: names of computations; a while's body, then its condition
  int64_t flops = 0;                     // -1 where not known
  int64_t bytes = 0;                     // -1 where not known
  bool is_fused_attention = false;       // IsFusedAttention
  std::string_view start;                // of a done: the name of its start; else ""
};

struct ComputationSchedule {
  std::string_view name;
  int64_t executions = 0;  // in one run of the module; -1 where that is not known
  bool in_loop = false;
  bool is_scheduled = false;  // false: the order is that of the module, in which operands come first
  std::vector<ScheduledInstruction> instructions;
};

// The order in which a module's instructions run, by computation: the entry, which is last, and all computations that
// loops, calls and branches lead to from there. The insides of fusions, reductions and async wrappers run as one
// instruction and are not listed. An error if the bytes are not a well-formed HloModuleProto.
Result<std::vector<ComputationSchedule>> ReadTimeline(std::string_view module);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_HLO_ANALYSIS_TIMELINE_H_
