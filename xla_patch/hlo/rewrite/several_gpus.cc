#include "xla_patch/hlo/rewrite/several_gpus.h"

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/schedule.h"
#include "xla_patch/hlo/proto/wire.h"
#include "xla_patch/hlo/rewrite/call_arguments.h"
#include "xla_patch/hlo/rewrite/editor.h"
#include "xla_patch/hlo/rewrite/new_instructions.h"
#include "xla_patch/hlo/rewrite/new_numbers.h"
#include "xla_patch/types/collective_op.h"
#include "xla_patch/types/stable_hash.h"

namespace xla_shmem::hlo {
namespace {

// Tells the call's id from those of collectives.
constexpr uint64_t kMeets = 0x6d656574;

// The program's devices by process; empty unless a process has several of them.
std::vector<std::vector<int64_t>> DevicesByProcess(const DeviceAssignment& assignment, const Topology& topology) {
  std::map<int32_t, std::vector<int64_t>> by_process;
  bool has_several = false;
  for (const int64_t device : assignment.devices()) {
    const DeviceLocation* const location = topology.Find(device);
    if (location == nullptr) return {};
    std::vector<int64_t>& devices = by_process[location->process];
    devices.push_back(device);
    has_several = has_several || devices.size() > 1;
  }
  std::vector<std::vector<int64_t>> groups;
  if (!has_several) return groups;
  for (const auto& [process, devices] : by_process) groups.push_back(devices);
  return groups;
}

std::string Arguments(const Module& module, const std::vector<std::vector<int64_t>>& groups, const Topology& topology,
                      uint64_t structure_hash) {
  std::vector<int64_t> offsets{0}, devices;
  for (const std::vector<int64_t>& group : groups) {
    devices.insert(devices.end(), group.begin(), group.end());
    offsets.push_back(static_cast<int64_t>(devices.size()));
  }
  MlirDictionary dictionary = IdentityArguments(module, topology, HashInt(structure_hash, kMeets), "the program");
  dictionary.AddInts("group_offsets", offsets);
  dictionary.AddInts("groups", PesOf(devices, topology));
  return dictionary.Text();
}

constexpr bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// Graphs may hold no others.
bool MayBeInGraphs(const Instruction& instruction) {
  const std::string_view target = TargetOf(instruction);
  return instruction.is_lowered && !EndsWith(target, "_start") && !EndsWith(target, "_done");
}

// The call with a target that graphs may not hold.
std::string KeptOutOfGraphs(const Instruction& call) {
  std::string out;
  out.reserve(call.body.size() + kInLoopSuffix.size());
  FieldReader reader(call.body);
  for (Field field; reader.Next(&field);) {
    if (field.number == InstructionField::kCustomCallTarget) {
      WriteBytesField(field.number, std::string(field.bytes).append(kInLoopSuffix), &out);
    } else {
      out.append(field.whole);
    }
  }
  return out;
}

}  // namespace

Result<std::string> FitSeveralGpus(const Module& module, const DeviceAssignment& assignment, const Topology& topology,
                                   uint64_t structure_hash) {
  const std::vector<std::vector<int64_t>> groups = DevicesByProcess(assignment, topology);
  const std::vector<int64_t> sequence = Schedule(module.schedule).Sequence(module.computations[module.entry].id);
  if (groups.empty() || sequence.empty()) return std::string();
  std::vector<InstructionEdit> edits;
  bool has_first = false;
  for (size_t c = 0; c < module.computations.size(); ++c) {
    const Computation& computation = module.computations[c];
    for (size_t i = computation.first; i < computation.last; ++i) {
      const Instruction& instruction = module.instructions[i];
      if (TargetOf(instruction) == kMeetTarget) return std::string();
      if (c == module.entry && instruction.id == sequence[0]) {
        NewInstruction call = NewCall(
            {kMeetTarget, "xla_shmem_meet", Arguments(module, groups, topology, structure_hash), TupleShape({}), {}},
            NewNumbers(module, assignment).Id(sequence[0]));
        edits.push_back({c, i, std::string(instruction.body), {std::move(call)}});
        has_first = true;
      } else if (computation.loop_depth > 0 && MayBeInGraphs(instruction)) {
        edits.push_back({c, i, KeptOutOfGraphs(instruction), {}});
      }
    }
  }
  if (!has_first) return Status::Error("the schedule begins with an instruction that the entry lacks");
  return ApplyEdits(module, edits);
}

}  // namespace xla_shmem::hlo
