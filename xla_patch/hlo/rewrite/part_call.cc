#include "xla_patch/hlo/rewrite/part_call.h"

#include <utility>

#include "xla_patch/hlo/proto/mlir_dictionary.h"
#include "xla_patch/hlo/rewrite/call_arguments.h"

namespace xla_shmem::hlo {

CustomCall WritePartCall(const Module& module, const Collective& collective, const Topology& topology,
                         const PartCall& part, const std::string& name, int64_t number) {
  CollectiveSpec spec;
  spec.op = part.op;
  spec.name = name;
  spec.reduction = collective.spec.reduction;
  spec.groups = part.groups;
  spec.pairs = part.pairs;
  MlirDictionary dictionary = CallArguments(module, collective, topology, spec, number);
  if (part.target == PartTarget::kPermute) {
    dictionary.AddInts("received_by", PesOf(part.received_by, topology));
  } else if (part.target == PartTarget::kBroadcast) {
    dictionary.AddInts("sources", part.sources);
  } else {
    dictionary.AddInt("part_bytes", part.part_bytes);
    dictionary.AddInts("positions", part.positions);
  }
  CustomCall call;
  call.target = PartTargetName(part.target);
  call.backend_config = dictionary.Text();
  return call;
}

Attributes RecordPart(const CollectiveSpec& part, Backend backend, const std::string& does,
                      const CollectiveRecord& whole, std::vector<CollectiveRecord>* parts) {
  CollectiveRecord record = DescribeSpec(part);
  record.backend = record.lowered = BackendName(backend);
  record.rule = whole.rule;
  record.reason = does + "; " + whole.reason;
  record.computation = whole.computation;
  record.in_loop = whole.in_loop;
  record.executions = whole.executions;
  record.source_file = whole.source_file;
  record.source_line = whole.source_line;
  record.part_of = whole.name;
  record.num_domains = whole.num_domains;
  Attributes attributes = RecordToAttributes(record);
  if (backend == Backend::kNvshmem) attributes[attribute::kOp] = record.op;
  parts->push_back(std::move(record));
  return attributes;
}

}  // namespace xla_shmem::hlo
