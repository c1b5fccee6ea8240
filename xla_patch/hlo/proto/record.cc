#include "xla_patch/hlo/proto/record.h"

namespace xla_shmem::hlo {

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
  return record;
}

void MarkUnconsidered(const CollectiveSpec& spec, CollectiveRecord* record) {
  const Decision decision = Decide(spec, Topology(), Options());
  record->backend = record->lowered = BackendName(decision.backend);
  record->rule = decision.rule;
  record->reason = decision.reason;
}

}  // namespace xla_shmem::hlo
