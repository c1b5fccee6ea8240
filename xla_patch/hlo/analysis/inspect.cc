#include "xla_patch/hlo/analysis/inspect.h"

#include <utility>

#include "xla_patch/hlo/proto/collective_reader.h"
#include "xla_patch/hlo/proto/device_assignment.h"
#include "xla_patch/hlo/proto/record.h"

namespace xla_shmem {

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
