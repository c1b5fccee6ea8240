#include "xla_patch/hlo/proto/schedule.h"

#include <algorithm>

#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/wire.h"

namespace xla_shmem::hlo {

namespace {

// One entry of the map from computation ids to sequences.
struct SequenceEntry {
  int64_t computation_id = 0;
  std::string_view sequence;
};

SequenceEntry ReadSequenceEntry(std::string_view proto) {
  SequenceEntry entry;
  FieldReader reader(proto);
  for (Field field; reader.Next(&field);) {
    if (field.number == SequencesEntryField::kKey) {
      entry.computation_id = field.AsInt();
    } else if (field.number == SequencesEntryField::kValue) {
      entry.sequence = field.bytes;
    }
  }
  return entry;
}

std::vector<int64_t> ReadIds(std::string_view sequence) {
  std::vector<int64_t> ids;
  FieldReader reader(sequence);
  for (Field field; reader.Next(&field);) {
    if (field.number == InstructionSequenceField::kInstructionIds && !AppendRepeatedInts(field, &ids)) return {};
  }
  return ids;
}

}  // namespace

Schedule::Schedule(std::string_view proto) {
  FieldReader reader(proto);
  for (Field field; reader.Next(&field);) {
    if (field.number == ScheduleField::kSequences) {
      const SequenceEntry entry = ReadSequenceEntry(field.bytes);
      sequences_[entry.computation_id] = entry.sequence;
    }
  }
}

std::vector<int64_t> Schedule::Sequence(int64_t computation_id) const {
  const auto found = sequences_.find(computation_id);
  return found == sequences_.end() ? std::vector<int64_t>() : ReadIds(found->second);
}

bool IsComplete(const Schedule& schedule, const Module& module, const Computation& computation) {
  std::vector<int64_t> scheduled = schedule.Sequence(computation.id);
  if (scheduled.size() != computation.last - computation.first) return false;
  std::vector<int64_t> ids;
  for (size_t i = computation.first; i < computation.last; ++i) ids.push_back(module.instructions[i].id);
  std::sort(ids.begin(), ids.end());
  std::sort(scheduled.begin(), scheduled.end());
  return ids == scheduled && std::adjacent_find(ids.begin(), ids.end()) == ids.end();
}

std::string ChangeSchedule(std::string_view proto, const std::map<int64_t, ScheduleChange>& changes) {
  std::string out;
  FieldReader reader(proto);
  for (Field field; reader.Next(&field);) {
    const SequenceEntry entry =
        field.number == ScheduleField::kSequences ? ReadSequenceEntry(field.bytes) : SequenceEntry();
    const auto here = changes.find(entry.computation_id);
    if (field.number != ScheduleField::kSequences || here == changes.end()) {
      out.append(field.whole);
      continue;
    }
    std::vector<int64_t> ids;
    for (const int64_t id : ReadIds(entry.sequence)) {
      const auto& [added, added_behind, removed] = here->second;
      if (const auto before = added.find(id); before != added.end()) {
        ids.insert(ids.end(), before->second.begin(), before->second.end());
      }
      if (removed.count(id) == 0) ids.push_back(id);
      if (const auto behind = added_behind.find(id); behind != added_behind.end()) {
        ids.insert(ids.end(), behind->second.begin(), behind->second.end());
      }
    }
    std::string sequence;
    WritePackedInts(InstructionSequenceField::kInstructionIds, ids, &sequence);
    std::string changed;
    WriteIntField(SequencesEntryField::kKey, entry.computation_id, &changed);
    WriteBytesField(SequencesEntryField::kValue, sequence, &changed);
    WriteBytesField(ScheduleField::kSequences, changed, &out);
  }
  return out;
}

}  // namespace xla_shmem::hlo
