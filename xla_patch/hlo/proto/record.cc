#include "xla_patch/hlo/proto/record.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xla_patch/hlo/proto/attributes.h"
#include "xla_patch/hlo/proto/backend_config.h"

namespace xla_shmem::hlo {
namespace {

// Of XLA, with a strategy that this release of ours does not know.
constexpr char kUnknownKernel[] = "own";

bool EndsWith(std::string_view text, std::string_view ending) {
  return text.size() >= ending.size() && text.substr(text.size() - ending.size()) == ending;
}

// The record of a collective that the rules do not look at: it stays with XLA.
void MarkUnconsidered(const CollectiveSpec& spec, CollectiveRecord* record) {
  const Decision decision = Decide(spec, Topology(), Options());
  record->backend = record->lowered = BackendName(decision.backend);
  record->rule = decision.rule;
  record->reason = decision.reason;
}

// How XLA runs a collective in a fusion; "" for all others.
std::string RunByFusion(const std::string& kernel) {
  if (kernel.empty()) return "";
  return "XLA runs it in a fusion, by its own " + (kernel == kUnknownKernel ? "kernel" : kernel + " kernel");
}

std::string KernelOf(const Collective& collective) {
  if (collective.fusion < 0) return "";
  switch (ReadXlaKernel(collective.fields.backend_config)) {
    case XlaKernel::kOneShot:
      return "one-shot";
    case XlaKernel::kTwoShot:
      return "two-shot";
    case XlaKernel::kNone:
      break;
  }
  return kUnknownKernel;
}

// Its own config, or that of the async-start around it.
std::string_view GpuConfigOf(const Module& module, const Collective& collective) {
  const std::string_view own = collective.fields.backend_config;
  if (collective.form != CollectiveForm::kWrapped || ReadStockBackend(own).has_value()) return own;
  return BackendConfigOf(module.payloads, module.instructions[collective.instruction].body);
}

XlaChoice ReadChoice(const Module& module, const Collective& collective) {
  XlaChoice choice;
  if (collective.form == CollectiveForm::kLowered) return choice;
  ReadModeAndSync(GpuConfigOf(module, collective), &choice);
  choice.kernel = KernelOf(collective);
  choice.operand_space = collective.operand_space;
  const std::vector<const Shape*> results = collective.result.Leaves();
  if (!results.empty()) choice.result_space = results[0]->memory_space;
  return choice;
}

void ReadStock(const Module& module, const Collective& collective, CollectiveRecord* record) {
  const std::optional<Backend> backend = ReadStockBackend(GpuConfigOf(module, collective));
  if (!backend.has_value() && !IsConsidered(collective.spec, Options())) {
    MarkUnconsidered(collective.spec, record);
    return;
  }
  record->rule = "stock";
  record->reason = RunByFusion(record->xla.kernel);
  if (record->reason.empty()) {
    record->reason = backend.has_value() ? std::string("stock XLA wrote backend ") + BackendName(*backend)
                                         : "no backend is recorded, so XLA uses its default";
  }
  record->backend = record->lowered = BackendName(backend.value_or(Backend::kDefault));
}

// Why the record has no groups. The rules of this package give it as their reason, stock XLA gives none.
void AddUnknownParticipants(const CollectiveSpec& spec, CollectiveRecord* record) {
  if (spec.unsupported_participants.has_value()) {
    record->reason += "; " + *spec.unsupported_participants;
  } else if (record->group_size == 0) {
    record->reason += UsesPairs(spec.op) ? "; it has no pairs"
                                         : "; its group is all devices, and the module does not contain their number";
  }
}

}  // namespace

CollectiveRecord DescribeCollective(const Module& module, const Collective& collective) {
  CollectiveRecord record = DescribeSpec(collective.spec);
  if (collective.form == CollectiveForm::kLowered) {
    record.reduction.clear();  // op and participants stand in its attributes
  }
  record.computation = std::string(module.computations[collective.computation].name);
  record.executions = module.computations[collective.computation].executions;
  record.in_loop = module.computations[collective.computation].loop_depth > 0;
  record.source_file = std::string(collective.fields.source_file);
  record.source_line = collective.fields.source_line;
  record.xla = ReadChoice(module, collective);
  return record;
}

bool IsPart(const Collective& collective) {
  return ReadOwnAttributes(collective.fields.frontend_attributes).count(attribute::kPartOf) != 0;
}

bool HasChosenWay(const Collective& collective) {
  return ReadOwnAttributes(collective.fields.frontend_attributes).count(attribute::kWay) != 0;
}

bool ReadRecord(const Module& module, const Collective& collective, CollectiveRecord* record) {
  const bool is_lowered = collective.form == CollectiveForm::kLowered;
  if (is_lowered && EndsWith(collective.fields.custom_call_target, "_done")) return false;
  *record = DescribeCollective(module, collective);
  const Attributes attributes = ReadOwnAttributes(collective.fields.frontend_attributes);
  if (is_lowered && attributes.count(attribute::kOp) == 0) return false;
  if (attributes.empty()) {
    ReadStock(module, collective, record);
    AddUnknownParticipants(collective.spec, record);
  } else {
    AttributesToRecord(attributes, record);
  }
  return true;
}

}  // namespace xla_shmem::hlo
