#include "xla_patch/hlo/custom_call.h"

#include "xla_patch/hlo/mlir_dictionary.h"

namespace xla_shmem::hlo {
namespace {

bool IsPermute(const Collective& collective) { return collective.spec.op == OpKind::kCollectivePermute; }

int64_t PeOf(int64_t device, const Topology& topology) { return topology.Find(device)->pe; }

std::string BackendConfig(const Module& module, const Collective& collective, const Topology& topology) {
  const CollectiveSpec& spec = collective.spec;
  const Instruction& instruction = module.instructions[collective.instruction];
  const int64_t computation_id = module.computations[collective.computation].id;
  MlirDictionary dictionary;
  dictionary.AddInt("op",
                    static_cast<int64_t>(HashInt(HashInt(module.structure_hash, computation_id), instruction.id)));
  dictionary.AddString("module", module.name);
  dictionary.AddString("name", spec.name);
  dictionary.AddInt("topology", static_cast<int64_t>(topology.Fingerprint()));
  std::vector<int64_t> pes;
  if (IsPermute(collective)) {
    for (const auto& [source, target] : spec.pairs) {
      pes.push_back(PeOf(source, topology));
      pes.push_back(PeOf(target, topology));
    }
    dictionary.AddInts("pairs", pes);
  } else {
    for (const int64_t device : spec.groups.devices) {
      pes.push_back(PeOf(device, topology));
    }
    dictionary.AddString("reduction", ReductionName(spec.reduction));
    dictionary.AddInts("group_offsets", spec.groups.offsets);
    dictionary.AddInts("groups", pes);
  }
  return dictionary.Text();
}

// Each leaf of the result is the same leaf of operand 0.
std::vector<Aliasing> AliasFirstOperand(const Shape& result) {
  if (!result.IsTuple()) {
    return {Aliasing()};
  }
  std::vector<Aliasing> aliasing;
  aliasing.reserve(result.elements.size());
  for (int64_t i = 0; i < static_cast<int64_t>(result.elements.size()); ++i) {
    aliasing.push_back({{i}, 0, {i}});
  }
  return aliasing;
}

// Leaf i of the result is operand i.
std::vector<Aliasing> AliasEachOperand(const Shape& result) {
  if (!result.IsTuple()) {
    return {Aliasing()};
  }
  std::vector<Aliasing> aliasing;
  aliasing.reserve(result.elements.size());
  for (int64_t i = 0; i < static_cast<int64_t>(result.elements.size()); ++i) {
    aliasing.push_back({{i}, i, {}});
  }
  return aliasing;
}

}  // namespace

CustomCall SyncCall(const Module& module, const Collective& collective, const Topology& topology) {
  CustomCall call;
  call.target = IsPermute(collective) ? "xla_shmem.collective_permute" : "xla_shmem.all_reduce";
  call.backend_config = BackendConfig(module, collective, topology);
  return call;
}

CustomCall StartCall(const Module& module, const Collective& collective, const Topology& topology) {
  CustomCall call;
  call.backend_config = BackendConfig(module, collective, topology);
  if (IsPermute(collective)) {
    call.target = "xla_shmem.permute_start";
    call.shape = collective.result.proto;
  } else {
    call.target = "xla_shmem.all_reduce_start";
    call.aliasing = AliasEachOperand(collective.result);
  }
  return call;
}

CustomCall DoneCall(const Module& module, const Collective& collective, const Topology& topology) {
  CustomCall call;
  call.backend_config = BackendConfig(module, collective, topology);
  call.aliasing = AliasFirstOperand(collective.result);
  if (IsPermute(collective)) {
    call.target = "xla_shmem.permute_done";
    call.extra_operands = collective.fields.operand_ids;
  } else {
    call.target = "xla_shmem.all_reduce_done";
  }
  return call;
}

}  // namespace xla_shmem::hlo
