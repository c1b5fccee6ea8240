#include "xla_patch/hlo/rewrite/part_record.h"

#include <utility>

namespace xla_shmem::hlo {

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
