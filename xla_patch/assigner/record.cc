#include "xla_patch/assigner/record.h"

#include <cstdlib>

#include "xla_patch/assigner/hierarchical_rule.h"

namespace xla_shmem {
namespace {

// Why a way that was decided for XLA cannot be written into the module.
const Unsupported& VetoOf(Way way, const FormVetoes& forms) {
  return way == Way::kOneSided ? forms.one_sided : forms.call;
}

int64_t ParseNumber(const std::string& text) { return std::strtoll(text.c_str(), nullptr, 10); }

}  // namespace

CollectiveRecord DescribeSpec(const CollectiveSpec& spec) {
  CollectiveRecord record;
  record.name = spec.name;
  record.op = OpName(spec.op);
  record.dtype = ElementTypeNames(spec.element_types);
  record.bytes = spec.bytes;
  record.num_pairs = static_cast<int64_t>(spec.pairs.size());
  const GroupCount groups = CountGroups(spec);
  record.num_groups = groups.number;
  record.group_size = groups.largest;
  if (IsReducing(spec.op)) record.reduction = ReductionName(spec.reduction);
  return record;
}

std::optional<Hierarchy> DecideAndRecord(const CollectiveSpec& spec, const Topology& topology, const Options& options,
                                         const Transport& transport, const FormVetoes& forms, CollectiveRecord* record,
                                         DecisionTrace* trace) {
  const Unsupported& form = forms.call;
  const Decision decision = Decide(spec, topology, options, trace);
  record->backend = record->lowered = BackendName(decision.backend);
  record->rule = decision.rule;
  record->reason = decision.reason;
  record->model = decision.model.value_or("");
  record->way.clear();
  if (decision.way.has_value()) {
    const Unsupported& veto = VetoOf(*decision.way, forms);
    record->veto = veto.value_or("");
    if (!veto.has_value()) record->way = InfoOf(*decision.way).name;
    Note(trace, "form", veto.has_value() ? Verdict::kDefault : Verdict::kPassed,
         [&] { return veto.value_or("it can be changed"); });
  }
  bool crosses_domains = decision.crosses_domains;
  if (decision.backend == Backend::kNvshmem) {
    // A missing transport, or one without this op, is reported first: another form of the instruction would not help.
    const bool is_by_form = transport.available && Carries(transport, spec.op) && form.has_value();
    record->veto = (is_by_form ? form : UnsupportedByTransport(spec, topology, transport)).value_or("");
    const bool is_vetoed = !record->veto.empty();
    if (is_vetoed) {
      record->lowered = BackendName(Backend::kDefault);
      record->model.clear();
      crosses_domains = !is_by_form && !UnsupportedKind(spec, transport).has_value() &&
                        UnsupportedReach(spec, topology, transport).has_value();
    }
    Note(trace, is_by_form ? "form" : "transport", is_vetoed ? Verdict::kDefault : Verdict::kPassed,
         [&] { return is_vetoed ? record->veto : "it carries " + record->op + " of " + record->dtype; });
    if (!form.has_value()) Note(trace, "form", Verdict::kPassed, [] { return std::string("it can be replaced"); });
  }
  HierarchicalDecision divided;
  record->num_domains = 0;
  if (crosses_domains) {
    divided = DecideHierarchical(spec, topology, options, transport, form);
    const bool is_divided = divided.hierarchy.has_value();
    Note(trace, kHierarchicalRule, is_divided ? Verdict::kHierarchical : Verdict::kDefault,
         [&] { return divided.reason; });
    if (is_divided) {
      record->backend = record->lowered = BackendName(Backend::kHierarchical);
      record->rule = kHierarchicalRule;
      record->reason = divided.reason;
      record->num_domains = divided.hierarchy->num_domains;
      record->veto.clear();
    } else {
      (record->veto.empty() ? record->reason : record->veto) += "; not divided: " + divided.reason;
    }
  }
  if (trace != nullptr) CompleteDecisionTrace(options, trace);
  return std::move(divided.hierarchy);
}

Attributes RecordToAttributes(const CollectiveRecord& record) {
  Attributes attributes = {
      {attribute::kBackend, record.backend},
      {attribute::kLowered, record.lowered},
      {attribute::kRule, record.rule},
      {attribute::kReason, record.reason},
      {attribute::kGroups, std::to_string(record.num_groups) + "x" + std::to_string(record.group_size)},
  };
  if (!record.veto.empty()) attributes[attribute::kVeto] = record.veto;
  if (!record.way.empty()) attributes[attribute::kWay] = record.way;
  if (!record.model.empty()) attributes[attribute::kModel] = record.model;
  if (record.op == OpName(CollectiveOp::kCollectivePermute)) {
    attributes[attribute::kPairs] = std::to_string(record.num_pairs);
  }
  if (!record.reduction.empty()) attributes[attribute::kReduction] = record.reduction;
  if (!record.part_of.empty()) attributes[attribute::kPartOf] = record.part_of;
  if (record.num_domains > 0) attributes[attribute::kDomains] = std::to_string(record.num_domains);
  if (!record.source_file.empty()) {
    attributes[attribute::kSource] = record.source_file + ":" + std::to_string(record.source_line);
  }
  return attributes;
}

void AttributesToRecord(const Attributes& attributes, CollectiveRecord* record) {
  const auto read = [&](const char* key, std::string* field) {
    if (const auto found = attributes.find(key); found != attributes.end()) *field = found->second;
  };
  read(attribute::kBackend, &record->backend);
  read(attribute::kLowered, &record->lowered);
  read(attribute::kRule, &record->rule);
  read(attribute::kReason, &record->reason);
  read(attribute::kVeto, &record->veto);
  read(attribute::kWay, &record->way);
  read(attribute::kModel, &record->model);
  read(attribute::kReduction, &record->reduction);
  read(attribute::kPartOf, &record->part_of);
  read(attribute::kOp, &record->op);
  std::string groups;
  read(attribute::kGroups, &groups);
  if (const size_t cross = groups.find('x'); cross != std::string::npos) {
    record->num_groups = ParseNumber(groups.substr(0, cross));
    record->group_size = ParseNumber(groups.substr(cross + 1));
  }
  std::string pairs;
  read(attribute::kPairs, &pairs);
  if (!pairs.empty()) record->num_pairs = ParseNumber(pairs);
  std::string domains;
  read(attribute::kDomains, &domains);
  if (!domains.empty()) record->num_domains = ParseNumber(domains);
  std::string source;
  read(attribute::kSource, &source);
  if (const size_t colon = source.rfind(':'); colon != std::string::npos) {
    record->source_file = source.substr(0, colon);
    record->source_line = ParseNumber(source.substr(colon + 1));
  }
}

}  // namespace xla_shmem
