#include "xla_patch/hlo/rewrite/new_numbers.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/wire.h"

namespace xla_shmem::hlo {
namespace {

// Newer releases of XLA put the computation's id into the upper half of an instruction's.
constexpr int64_t kLocalId = 0xffffffff;

}  // namespace

void NewNumbers::FindLast() {
  found_last_ = true;
  for (const Instruction& instruction : module_.instructions) {
    last_id_ = std::max(last_id_, instruction.id & kLocalId);
    FieldReader reader(instruction.body);
    for (Field field; reader.Next(&field);) {
      if (field.number == InstructionField::kChannelId || field.number == InstructionField::kAllReduceId) {
        last_channel_ = std::max(last_channel_, field.AsInt());
      }
    }
  }
}

int64_t NewNumbers::Id(int64_t neighbour) {
  if (!found_last_) FindLast();
  return (neighbour & ~kLocalId) | ++last_id_;
}

int64_t NewNumbers::Channel() {
  if (!found_last_) FindLast();
  return ++last_channel_;
}

int64_t NewNumbers::OfDevice(int64_t device) {
  if (of_device_.empty()) {
    const std::vector<int64_t>& devices = assignment_.devices();
    for (size_t i = 0; i < devices.size(); ++i) of_device_.emplace(devices[i], static_cast<int64_t>(i));
  }
  const auto found = of_device_.find(device);
  return found == of_device_.end() ? device : found->second;
}

}  // namespace xla_shmem::hlo
