#ifndef XLA_SHMEM_HLO_PROTO_SCHEDULE_H_
#define XLA_SHMEM_HLO_PROTO_SCHEDULE_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "xla_patch/hlo/proto/module_reader.h"

namespace xla_shmem::hlo {

// The order that the scheduler chose, by computation: an xla.HloScheduleProto. Malformed parts count as absent, since
// the schedule is used only to find where waiting could overlap with work.
class Schedule {
 public:
  explicit Schedule(std::string_view proto);

  // Ids of the computation's instructions as they run; empty if it is not scheduled.
  std::vector<int64_t> Sequence(int64_t computation_id) const;

 private:
  std::unordered_map<int64_t, std::string_view> sequences_;
};

// Whether the computation's sequence has each of its instructions once.
bool IsComplete(const Schedule& schedule, const Module& module, const Computation& computation);

// Changes to a computation's sequence.
struct ScheduleChange {
  std::unordered_map<int64_t, std::vector<int64_t>> added;         // to be put right before the instruction of this id
  std::unordered_map<int64_t, std::vector<int64_t>> added_behind;  // and right behind it
  std::unordered_set<int64_t> removed;
};

// The schedule with the changes, by computation id.
std::string ChangeSchedule(std::string_view proto, const std::map<int64_t, ScheduleChange>& changes);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_SCHEDULE_H_
