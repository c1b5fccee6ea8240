#include <optional>

#include "xla_patch/hlo/proto/attributes.h"
#include "xla_patch/hlo/proto/backend_config.h"
#include "xla_patch/hlo/proto/device_assignment.h"
#include "xla_patch/hlo/proto/record.h"
#include "xla_patch/hlo/rewrite/pass.h"

namespace xla_shmem {
namespace {

using attribute::kOp;

bool EndsWith(std::string_view text, std::string_view ending) {
  return text.size() >= ending.size() && text.substr(text.size() - ending.size()) == ending;
}

void ReadStock(const hlo::Module& module, const hlo::Collective& collective, CollectiveRecord* record) {
  std::optional<Backend> backend = hlo::ReadStockBackend(collective.fields.backend_config);
  if (!backend.has_value() && collective.form == hlo::CollectiveForm::kWrapped) {
    hlo::CollectiveFields start;
    std::string ignored;
    hlo::DecodeCollective(module, module.instructions[collective.instruction].body, &start, &ignored);
    backend = hlo::ReadStockBackend(start.backend_config);
  }
  if (!backend.has_value() && !IsConsidered(collective.spec.op, Options())) {
    hlo::MarkUnconsidered(collective.spec, record);
    return;
  }
  record->rule = "stock";
  record->reason = backend.has_value() ? std::string("stock XLA wrote backend ") + BackendName(*backend)
                                       : "no backend is recorded, so XLA uses its default";
  record->backend = record->lowered = BackendName(backend.value_or(Backend::kDefault));
}

}  // namespace

bool hlo::ReadRecord(const Module& module, const Collective& collective, CollectiveRecord* record) {
  const bool is_lowered = collective.form == CollectiveForm::kLowered;
  if (is_lowered && EndsWith(collective.fields.custom_call_target, "_done")) {
    return false;
  }
  *record = DescribeCollective(module, collective);
  const Attributes attributes = ReadOwnAttributes(collective.fields.frontend_attributes);
  if (is_lowered && attributes.count(kOp) == 0) {
    return false;
  }
  if (attributes.empty()) {
    ReadStock(module, collective, record);
  } else {
    AttributesToRecord(attributes, record);
  }
  return true;
}

bool InspectModule(std::string_view bytes, std::vector<CollectiveRecord>* records, std::string* error) {
  records->clear();
  hlo::Module module;
  if (!hlo::ReadModule(bytes, &module, error)) {
    return false;
  }
  DeviceAssignment assignment;
  if (!module.device_assignment.empty() && !hlo::ParseDeviceAssignment(module.device_assignment, &assignment, error)) {
    return false;
  }
  std::vector<hlo::Collective> collectives;
  if (!hlo::FindCollectives(module, assignment, &collectives, error)) {
    return false;
  }
  for (const hlo::Collective& collective : collectives) {
    CollectiveRecord record;
    if (hlo::ReadRecord(module, collective, &record)) {
      records->push_back(std::move(record));
    }
  }
  return true;
}

}  // namespace xla_shmem
