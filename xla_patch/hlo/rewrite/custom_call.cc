#include "xla_patch/hlo/rewrite/custom_call.h"

#include <string>
#include <utility>

#include "xla_patch/hlo/rewrite/call_arguments.h"

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

}  // namespace

Unsupported UnsupportedForm(const Collective& collective, Lowering lowering) {
  if (lowering == Lowering::kCpu && IsPair(collective)) return "start/done pairs are lowered for GPU only";
  if (lowering == Lowering::kCpu && collective.fusion >= 0) return "fusions are taken apart for GPU only";
  return lowering == Lowering::kGpu ? UnsupportedOnGpu(collective) : collective.unsupported_form;
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
