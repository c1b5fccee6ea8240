#include "xla_patch/hlo/rewrite/meeting_call.h"

#include <map>
#include <string_view>
#include <vector>

#include "xla_patch/hlo/proto/schedule.h"
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

}  // namespace

Result<std::string> AddMeetingCall(const Module& module, const DeviceAssignment& assignment, const Topology& topology,
                                   uint64_t structure_hash) {
  const std::vector<std::vector<int64_t>> groups = DevicesByProcess(assignment, topology);
  const Computation& entry = module.computations[module.entry];
  const std::vector<int64_t> sequence = Schedule(module.schedule).Sequence(entry.id);
  if (groups.empty() || sequence.empty()) return std::string();
  size_t first = entry.last;
  for (size_t i = entry.first; i < entry.last; ++i) {
    if (CallsTarget(module.instructions[i], kMeetTarget)) return std::string();
    if (module.instructions[i].id == sequence[0]) first = i;
  }
  if (first == entry.last) return Status::Error("the schedule begins with an instruction that the entry lacks");
  const std::string nothing = TupleShape({});
  InstructionEdit edit{module.entry, first, std::string(module.instructions[first].body), {}};
  edit.before.push_back(
      NewCall({kMeetTarget, "xla_shmem_meet", Arguments(module, groups, topology, structure_hash), nothing, {}},
              NewNumbers(module, assignment).Id(sequence[0])));
  return ApplyEdits(module, {edit});
}

}  // namespace xla_shmem::hlo
