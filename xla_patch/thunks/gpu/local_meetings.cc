#include "xla_patch/thunks/gpu/local_meetings.h"

namespace xla_shmem {

void LocalMeetings::Meet(uint64_t operation, int first_pe, Place place, int threads) {
  if (threads < 2) return;
  const Key key{operation, first_pe, place};
  std::unique_lock<std::mutex> lock(mutex_);
  if (over_.count(key) != 0) return;
  const bool all_came =
      ++waiting_[key] == threads || changed_.wait_for(lock, patience_, [&] { return over_.count(key) != 0; });
  static_cast<void>(all_came);  // who comes too late finds the meeting over
  if (over_.insert(key).second) changed_.notify_all();
  waiting_.erase(key);
}

}  // namespace xla_shmem
