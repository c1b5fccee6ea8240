#include "xla_patch/thunks/gpu/local_meetings.h"

#include <algorithm>
#include <iterator>

namespace xla_shmem {
namespace {

constexpr std::chrono::milliseconds kLook{100};

}  // namespace

bool LocalMeetings::IsOver(uint64_t operation, int pe) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return over_.count({Place::kBehindFirst, operation, 0, pe}) != 0;
}

size_t LocalMeetings::remembered() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return came_.size() + over_.size();
}

Status LocalMeetings::Meet(const Meeting& meeting, int pe, const std::vector<int>& members, const OnWait& on_wait) {
  if (members.size() < 2) return {};
  const auto begin = std::chrono::steady_clock::now();
  const auto key_of = [&](int member) { return Key{meeting.place, meeting.operation, meeting.run, member}; };
  const Key own = key_of(pe), first = key_of(*std::min_element(members.begin(), members.end()));
  std::unique_lock<std::mutex> lock(mutex_);
  if (over_.count(own) != 0) return {};
  came_[first].insert(pe);
  if (came_[first].size() == members.size()) {
    for (const int member : members) over_.insert(key_of(member));
    came_.erase(first);
    changed_.notify_all();
  }
  while (!changed_.wait_for(lock, kLook, [&] { return over_.count(own) != 0; })) {
    const std::set<int>& came = came_[first];
    std::vector<int> missing;
    std::copy_if(members.begin(), members.end(), std::back_inserter(missing),
                 [&](int member) { return came.count(member) == 0; });
    lock.unlock();
    XLA_SHMEM_RETURN_IF_ERROR(on_wait(std::chrono::steady_clock::now() - begin, missing));
    lock.lock();
  }
  if (meeting.place == Place::kBeforeRun) over_.erase(own);
  return {};
}

}  // namespace xla_shmem
