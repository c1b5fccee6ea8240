#include "xla_patch/hlo/rewrite/call_arguments.h"

#include <string>
#include <utility>

#include "xla_patch/hlo/proto/program_identity.h"
#include "xla_patch/types/stable_hash.h"

namespace xla_shmem::hlo {
namespace {

// "/home/me/train.py:42"; "" if the module does not name it.
std::string SourceOf(const Collective& collective) {
  if (collective.fields.source_file.empty()) return "";
  return std::string(collective.fields.source_file) + ":" + std::to_string(collective.fields.source_line);
}

// Whether every device of the job runs the collective, as often as all others. In a branch that is not known, and in a
// loop only if its trip count is.
bool RunsOnAll(const Module& module, const Collective& collective, const Topology& topology) {
  return collective.spec.module.num_devices == topology.num_devices() &&
         module.computations[collective.computation].executions > 0;
}

// `number`: of the call.
void AddIdentity(const Module& module, const Collective& collective, int64_t number, MlirDictionary* dictionary) {
  const CollectiveIdentity& identity = collective.identity;
  if (identity.form == 0) return;
  dictionary->AddInt("program", static_cast<int64_t>(module.structure_hash));
  dictionary->AddInt("form", static_cast<int64_t>(identity.form));
  if (identity.place < 0) return;
  dictionary->AddInt("place", identity.place);
  dictionary->AddInt("part", number);
  dictionary->AddString("contents", DescribeContents(collective));
  if (!identity.sources.empty()) {
    std::vector<int64_t> sources;
    for (const auto& [kind, inputs] : identity.sources) {
      sources.insert(sources.end(), {static_cast<int64_t>(kind), static_cast<int64_t>(inputs)});
    }
    dictionary->AddInts("operand_sources", std::move(sources));
  }
  if (identity.branches.empty()) return;
  std::vector<int64_t> branches;
  for (const Branch& branch : identity.branches) branches.insert(branches.end(), {branch.conditional, branch.number});
  dictionary->AddInts("branches", std::move(branches));
}

}  // namespace

std::vector<int64_t> PesOf(const std::vector<int64_t>& devices, const Topology& topology) {
  std::vector<int64_t> pes;
  pes.reserve(devices.size());
  for (const int64_t device : devices) pes.push_back(topology.Find(device)->pe);
  return pes;
}

MlirDictionary IdentityArguments(const Module& module, const Topology& topology, uint64_t op, const std::string& name) {
  MlirDictionary dictionary;
  dictionary.AddInt("op", static_cast<int64_t>(op));
  dictionary.AddString("module", module.name);
  dictionary.AddString("name", name);
  dictionary.AddInt("topology", static_cast<int64_t>(topology.Fingerprint()));
  return dictionary;
}

MlirDictionary CallArguments(const Module& module, const Collective& collective, const Topology& topology,
                             const CollectiveSpec& spec, int64_t number) {
  const Instruction& instruction = module.instructions[collective.instruction];
  const int64_t computation_id = module.computations[collective.computation].id;
  uint64_t op = HashInt(HashInt(module.structure_hash, computation_id), instruction.id);
  if (number > 0) op = HashInt(op, number);
  MlirDictionary dictionary = IdentityArguments(module, topology, op, spec.name);
  if (UsesPairs(spec.op)) {
    std::vector<int64_t> devices;
    for (const auto& [source, target] : spec.pairs) {
      devices.push_back(source);
      devices.push_back(target);
    }
    dictionary.AddInts("pairs", PesOf(devices, topology));
  } else {
    if (IsReducing(spec.op)) dictionary.AddString("reduction", ReductionName(spec.reduction));
    dictionary.AddInts("group_offsets", spec.groups.offsets);
    dictionary.AddInts("groups", PesOf(spec.groups.devices, topology));
  }
  const std::string source = SourceOf(collective);
  if (!source.empty()) dictionary.AddString("source", source);
  if (topology.max_devices_per_process() > 1 && RunsOnAll(module, collective, topology)) {
    dictionary.AddInt("on_all", 1);
  }
  AddIdentity(module, collective, number, &dictionary);
  return dictionary;
}

}  // namespace xla_shmem::hlo
