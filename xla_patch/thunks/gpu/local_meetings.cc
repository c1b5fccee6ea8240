#include "xla_patch/thunks/gpu/local_meetings.h"

#include <algorithm>
#include <iterator>

namespace xla_shmem {
namespace {

constexpr std::chrono::milliseconds kLook{100};

}  // namespace

bool LocalMeetings::IsOver(uint64_t operation, int pe) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return over_.count({operation, pe, Place::kBehind}) != 0;
}

Status LocalMeetings::Meet(uint64_t operation, Place place, int pe, const std::vector<int>& members,
                           const OnWait& on_wait) {
  if (members.size() < 2) return {};
  const auto begin = std::chrono::steady_clock::now();
  const Key own{operation, pe, place};
  std::unique_lock<std::mutex> lock(mutex_);
  if (over_.count(own) != 0) return {};
  const Key meeting{operation, *std::min_element(members.begin(), members.end()), place};
  came_[meeting].insert(pe);
  if (came_[meeting].size() == members.size()) {
    for (const int member : members) over_.insert({operation, member, place});
    came_.erase(meeting);
    changed_.notify_all();
    return {};
  }
  while (!changed_.wait_for(lock, kLook, [&] { return over_.count(own) != 0; })) {
    const std::set<int>& came = came_[meeting];
    std::vector<int> missing;
    std::copy_if(members.begin(), members.end(), std::back_inserter(missing),
                 [&](int member) { return came.count(member) == 0; });
    lock.unlock();
    XLA_SHMEM_RETURN_IF_ERROR(on_wait(std::chrono::steady_clock::now() - begin, missing));
    lock.lock();
  }
  return {};
}

}  // namespace xla_shmem
