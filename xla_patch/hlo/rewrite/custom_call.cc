#include "xla_patch/hlo/rewrite/custom_call.h"

#include <string>
#include <utility>

#include "xla_patch/hlo/proto/program_identity.h"
#include "xla_patch/types/stable_hash.h"

namespace xla_shmem::hlo {
namespace {

std::string BackendConfig(const Module& module, const Collective& collective, const Topology& topology) {
  return CallArguments(module, collective, topology, collective.spec, 0).Text();
}

// Each leaf of the result is the same leaf of operand 0.
std::vector<Aliasing> AliasFirstOperand(const Shape& result) {
  if (!result.IsTuple()) return {Aliasing()};
  std::vector<Aliasing> aliasing;
  aliasing.reserve(result.elements.size());
  for (int64_t i = 0; i < static_cast<int64_t>(result.elements.size()); ++i) aliasing.push_back({{i}, 0, {i}});
  return aliasing;
}

// A result shares the buffer of operand i exactly where XLA had it so: no copy insertion follows the hook.
std::vector<Aliasing> AliasInPlaceOperands(const Collective& collective) {
  std::vector<Aliasing> aliasing;
  for (int64_t i = 0; i < static_cast<int64_t>(collective.in_place.size()); ++i) {
    if (collective.in_place[i]) {
      aliasing.push_back({collective.result.IsTuple() ? std::vector<int64_t>{i} : std::vector<int64_t>{}, i, {}});
    }
  }
  return aliasing;
}

CustomCall CallThatWrites(std::string target, const Module& module, const Collective& collective,
                          const Topology& topology) {
  CustomCall call;
  call.target = std::move(target);
  call.backend_config = BackendConfig(module, collective, topology);
  if (collective.done >= 0) call.shape = collective.result.proto;  // a start's own may hold more
  call.aliasing = AliasInPlaceOperands(collective);
  return call;
}

// "/home/me/train.py:42"; "" if the module does not name it.
std::string SourceOf(const Collective& collective) {
  if (collective.fields.source_file.empty()) return "";
  return std::string(collective.fields.source_file) + ":" + std::to_string(collective.fields.source_line);
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
    dictionary->AddInts("operand_sources", sources);
  }
  if (identity.branches.empty()) return;
  std::vector<int64_t> branches;
  for (const Branch& branch : identity.branches) branches.insert(branches.end(), {branch.conditional, branch.number});
  dictionary->AddInts("branches", branches);
}

}  // namespace

Unsupported UnsupportedForm(const Collective& collective, Lowering lowering) {
  if (lowering == Lowering::kCpu && IsPair(collective)) return "start/done pairs are lowered for GPU only";
  if (lowering == Lowering::kCpu && collective.fusion >= 0) return "fusions are taken apart for GPU only";
  return lowering == Lowering::kGpu ? UnsupportedOnGpu(collective) : collective.unsupported_form;
}

std::vector<int64_t> PesOf(const std::vector<int64_t>& devices, const Topology& topology) {
  std::vector<int64_t> pes;
  pes.reserve(devices.size());
  for (const int64_t device : devices) pes.push_back(topology.Find(device)->pe);
  return pes;
}

MlirDictionary CallArguments(const Module& module, const Collective& collective, const Topology& topology,
                             const CollectiveSpec& spec, int64_t number) {
  const Instruction& instruction = module.instructions[collective.instruction];
  const int64_t computation_id = module.computations[collective.computation].id;
  uint64_t op = HashInt(HashInt(module.structure_hash, computation_id), instruction.id);
  if (number > 0) op = HashInt(op, number);
  MlirDictionary dictionary;
  dictionary.AddInt("op", static_cast<int64_t>(op));
  dictionary.AddString("module", module.name);
  dictionary.AddString("name", spec.name);
  dictionary.AddInt("topology", static_cast<int64_t>(topology.Fingerprint()));
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
  AddIdentity(module, collective, number, &dictionary);
  return dictionary;
}

CustomCall SyncCall(const Module& module, const Collective& collective, const Topology& topology) {
  return CallThatWrites(InfoOf(collective.spec.op).target, module, collective, topology);
}

CustomCall StartCall(const Module& module, const Collective& collective, const Topology& topology) {
  return CallThatWrites(InfoOf(collective.spec.op).start_target, module, collective, topology);
}

CustomCall DoneCall(const Module& module, const Collective& collective, const Topology& topology) {
  CustomCall call;
  call.target = InfoOf(collective.spec.op).done_target;
  call.backend_config = BackendConfig(module, collective, topology);
  call.aliasing = AliasFirstOperand(collective.result);
  for (size_t i = 0; i < collective.in_place.size(); ++i) {
    if (!collective.in_place[i]) call.extra_operands.push_back(collective.fields.operand_ids[i]);
  }
  return call;
}

}  // namespace xla_shmem::hlo
