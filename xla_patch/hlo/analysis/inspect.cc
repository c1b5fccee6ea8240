#include "xla_patch/hlo/analysis/inspect.h"

#include <utility>

#include "xla_patch/hlo/proto/collective_reader.h"
#include "xla_patch/hlo/proto/device_assignment.h"
#include "xla_patch/hlo/proto/record.h"

namespace xla_shmem {

Result<std::vector<CollectiveRecord>> InspectModule(std::string_view bytes) {
  const Result<hlo::Module> module = hlo::ReadModule(bytes);
  if (!module.ok()) {
    return module.status();
  }
  const Result<DeviceAssignment> assignment = module->device_assignment.empty()
                                                  ? DeviceAssignment::Unknown()
                                                  : hlo::ParseDeviceAssignment(module->device_assignment);
  if (!assignment.ok()) {
    return assignment.status();
  }
  const Result<std::vector<hlo::Collective>> collectives = hlo::FindCollectives(*module, *assignment);
  if (!collectives.ok()) {
    return collectives.status();
  }
  std::vector<CollectiveRecord> records;
  for (const hlo::Collective& collective : *collectives) {
    CollectiveRecord record;
    if (hlo::ReadRecord(*module, collective, &record)) {
      records.push_back(std::move(record));
    }
  }
  return records;
}

}  // namespace xla_shmem
