#include "xla_patch/thunks/gpu/timeline.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace xla_shmem::gpu {
namespace {

using Progress = Device::Progress;

constexpr std::chrono::milliseconds kPoll{1};
// Polls of nothing before the thread sleeps until it is woken: a wake-up costs the host more than an entry.
constexpr int kIdlePolls = 50;
constexpr uint64_t kAnchorAgeNs = 10'000'000'000;
constexpr uint64_t kFirstAnchorLimitNs = 1'000'000'000;
constexpr uint64_t kAnchorLimitNs = 20'000'000;
constexpr int kAnchorTries = 10;
constexpr uint64_t kShortTryNs = 50'000;

uint64_t MonotonicNanoseconds() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Timeline::Timeline(Device* device, bool timed) : device_(device), timed_(timed) {
  if (timed) {
    anchor_stream_ = device->CreateStream();
    SetAnchor();
  }
  thread_ = std::thread([this] { Run(); });
}

Timeline::~Timeline() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Timeline::TimedFollow(Track track, std::shared_ptr<Follower> follower, EventRef begun,
                           std::vector<EventRef> ended) {
  Question reached = AllReached({begun});
  Question all_ended = AllReached(ended);
  Add({track, std::move(follower), std::move(reached), std::move(all_ended), std::move(begun), std::move(ended)});
}

void Timeline::Add(Entry entry) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (entry.begun_event != nullptr) entry.anchor = anchor_;
  tracks_[static_cast<int>(entry.track)].push_back(std::move(entry));
  if (sleeps_) changed_.notify_all();
}

// Records an event on a stream that has nothing else, so that the GPU reaches it at once. The host's time is then late
// by less than the try took, so the shortest of a few tries counts. But the stream may share a hardware queue with a
// stream that waits. Then all tries are too long, and the anchor before this one, if any, serves until the next time.
void Timeline::SetAnchor() {
  const uint64_t first = MonotonicNanoseconds();
  const uint64_t limit = anchor_ == nullptr ? kFirstAnchorLimitNs : kAnchorLimitNs;
  anchor_due_ns_ = first + kAnchorAgeNs;
  std::shared_ptr<Anchor> best;
  uint64_t shortest = UINT64_MAX;
  for (int tries = 0; tries < kAnchorTries && shortest > kShortTryNs; ++tries) {
    auto anchor = std::make_shared<Anchor>();
    const uint64_t begin = MonotonicNanoseconds();
    anchor->event = Mark(anchor_stream_);
    while (device_->Query(anchor->event) != Progress::kDone) {
      if (MonotonicNanoseconds() > first + limit) break;
    }
    anchor->host_ns = MonotonicNanoseconds();
    if (anchor->host_ns > first + limit) break;
    if (anchor->host_ns - begin >= shortest) continue;
    shortest = anchor->host_ns - begin;
    best = std::move(anchor);
  }
  if (best == nullptr) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  anchor_ = std::move(best);
}

DeviceTimes Timeline::TimesOf(const Entry& entry) const {
  if (entry.anchor == nullptr) return {0, MonotonicNanoseconds()};
  const auto between = [&](const EventRef& from, const EventRef& to) {
    return static_cast<int64_t>(1e6 * device_->MillisecondsBetween(from, to));
  };
  const uint64_t begun = entry.anchor->host_ns + between(entry.anchor->event, entry.begun_event);
  DeviceTimes times{begun, begun};
  // From the begin: between events that are far apart the driver's float has few digits.
  for (const EventRef& event : entry.ended_events) {
    times.ended_ns = std::max(times.ended_ns, begun + between(entry.begun_event, event));
  }
  return times;
}

bool Timeline::Look(Entry& entry) {
  if (!entry.was_reached) {
    const Progress reached = entry.reached();
    if (reached == Progress::kRunning) return false;
    entry.was_reached = true;
    if (reached == Progress::kDone) entry.follower->Reached();
  }
  const Progress ended = entry.ended();
  if (ended == Progress::kRunning) return false;
  if (ended == Progress::kDone) {
    entry.follower->Ended(entry.track, TimesOf(entry));
  } else {
    entry.follower->Failed();
  }
  return true;
}

bool Timeline::IsIdle() const {
  return std::all_of(std::begin(tracks_), std::end(tracks_), [](const auto& track) { return track.empty(); });
}

void Timeline::Settle() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, std::chrono::seconds(1), [&] { return IsIdle(); });
}

void Timeline::Run() {
  const ScopedContext context(*device_);
  std::unique_lock<std::mutex> lock(mutex_);
  int idle_polls = 0;
  while (!stop_) {
    for (std::deque<Entry>& track : tracks_) {
      while (!track.empty()) {
        idle_polls = 0;
        Entry& entry = track.front();  // only this thread removes entries, and adding moves none
        lock.unlock();
        const bool ended = Look(entry);
        lock.lock();
        if (!ended) break;
        track.pop_front();
      }
    }
    if (timed_ && MonotonicNanoseconds() > anchor_due_ns_) {
      lock.unlock();
      SetAnchor();
      lock.lock();
    }
    // This must be asked again: while the lock was free, a new entry may have come to a track that was looked at.
    if (IsIdle() && idle_polls++ == 0) changed_.notify_all();
    if (idle_polls <= kIdlePolls) {
      changed_.wait_for(lock, kPoll, [&] { return stop_; });
    } else {
      sleeps_ = true;
      changed_.wait(lock, [&] { return stop_ || !IsIdle(); });
      sleeps_ = false;
    }
  }
}

}  // namespace xla_shmem::gpu
