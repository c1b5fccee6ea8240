#include "xla_patch/hlo/analysis/timeline.h"

#include <unordered_set>

#include "xla_patch/hlo/proto/schedule.h"

namespace xla_shmem {
namespace {

using hlo::WorkKind;

class Timeline {
 public:
  Timeline(const hlo::Module& module, const std::vector<hlo::Work>& work)
      : module_(module), work_(work), order_(module.schedule) {}

  std::vector<ComputationSchedule> Read() const {
    const std::vector<bool> runs = FindRunning();
    std::vector<ComputationSchedule> schedules;
    for (size_t i = 0; i < module_.computations.size(); ++i) {
      if (runs[i]) schedules.push_back(ReadComputation(module_.computations[i]));
    }
    return schedules;
  }

 private:
  // Callees come first, so going backwards every caller has been seen before what it calls.
  std::vector<bool> FindRunning() const {
    std::vector<bool> runs(module_.computations.size(), false);
    runs[module_.entry] = true;
    for (size_t i = module_.computations.size(); i-- > 0;) {
      const hlo::Computation& computation = module_.computations[i];
      for (size_t at = computation.first; runs[i] && at < computation.last; ++at) {
        if (work_[at].kind == WorkKind::kControl) {
          for (const int64_t callee : work_[at].callees) runs[module_.computation_of_id.at(callee)] = true;
        }
      }
    }
    return runs;
  }

  ComputationSchedule ReadComputation(const hlo::Computation& computation) const {
    ComputationSchedule schedule;
    schedule.name = computation.name;
    schedule.executions = computation.executions;
    schedule.in_loop = computation.loop_depth > 0;
    const hlo::InstructionIndex index(module_, computation);
    std::unordered_set<const hlo::Instruction*> seen;
    for (const int64_t id : order_.Sequence(computation.id)) {
      const hlo::Instruction* instruction = index.Find(id);
      if (instruction != nullptr && seen.insert(instruction).second) {
        schedule.instructions.push_back(ReadInstruction(instruction - module_.instructions.data()));
      }
    }
    schedule.is_scheduled = !schedule.instructions.empty();
    for (size_t i = computation.first; !schedule.is_scheduled && i < computation.last; ++i) {
      schedule.instructions.push_back(ReadInstruction(i));
    }
    return schedule;
  }

  ScheduledInstruction ReadInstruction(size_t i) const {
    const hlo::Work& work = work_[i];
    ScheduledInstruction instruction;
    instruction.name = work.name;
    instruction.opcode = work.opcode;
    instruction.kind = work.kind;
    instruction.flops = work.flops;
    instruction.is_fused_attention = hlo::IsFusedAttention(work.custom_call_target);
    instruction.bytes = work.bytes;
    if (work.kind == WorkKind::kControl) {
      for (const int64_t callee : work.callees) {
        instruction.called.push_back(module_.computations[module_.computation_of_id.at(callee)].name);
      }
    }
    if (IsDone(work) && !work.operands.empty() && work.operands[0] >= 0) {
      instruction.start = work_[StartOf(work.operands[0])].name;
    }
    return instruction;
  }

  static bool IsDone(const hlo::Work& work) {
    const std::string_view called =
        work.custom_call_target.substr(0, 10) == "xla_shmem." ? work.custom_call_target : work.opcode;
    const std::string_view ending = called.size() < 5 ? std::string_view() : called.substr(called.size() - 5);
    return ending == "-done" || ending == "_done";
  }

  // Past updates, which stand between a start and its done.
  size_t StartOf(int64_t i) const {
    while (module_.instructions[i].opcode.op_class == hlo::OpClass::kAsyncUpdate && !work_[i].operands.empty() &&
           work_[i].operands[0] >= 0 && work_[i].operands[0] < i) {
      i = work_[i].operands[0];
    }
    return static_cast<size_t>(i);
  }

  const hlo::Module& module_;
  const std::vector<hlo::Work>& work_;
  const hlo::Schedule order_;
};

}  // namespace

Result<std::vector<ComputationSchedule>> ReadTimeline(std::string_view bytes) {
  const Result<hlo::Module> module = hlo::ReadModule(bytes);
  if (!module.ok()) return module.status();
  const Result<std::vector<hlo::Work>> work = hlo::CountWork(*module);
  if (!work.ok()) return work.status();
  return Timeline(*module, *work).Read();
}

}  // namespace xla_shmem
