#include "xla_patch/hlo/schedule.h"

#include "xla_patch/hlo/wire.h"

namespace xla_shmem::hlo {

Schedule::Schedule(std::string_view proto) {
  FieldReader reader(proto);
  for (Field entry; reader.Next(&entry);) {
    if (entry.number != 1) {
      continue;
    }
    int64_t computation_id = 0;
    std::string_view sequence;
    FieldReader pair(entry.bytes);
    for (Field field; pair.Next(&field);) {
      if (field.number == 1) {
        computation_id = field.AsInt();
      } else if (field.number == 2) {
        sequence = field.bytes;
      }
    }
    sequences_[computation_id] = sequence;
  }
}

std::vector<int64_t> Schedule::Sequence(int64_t computation_id) const {
  std::vector<int64_t> ids;
  const auto found = sequences_.find(computation_id);
  FieldReader reader(found == sequences_.end() ? std::string_view() : found->second);
  for (Field field; reader.Next(&field);) {
    if (field.number == 1 && !AppendRepeatedInts(field, &ids)) {
      return {};
    }
  }
  return ids;
}

}  // namespace xla_shmem::hlo
