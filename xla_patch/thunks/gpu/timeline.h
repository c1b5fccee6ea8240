// Follows collectives on the GPU: tells when the GPU reaches each and when each ends, and on request at which times of
// the device.
//
// No caller waits for the GPU. A thread looks every millisecond, while something is followed. Without times no command
// is enqueued: words in pinned memory, or the events that the watchdog has anyway, tell how far a collective is.
#ifndef XLA_SHMEM_THUNKS_GPU_TIMELINE_H_
#define XLA_SHMEM_THUNKS_GPU_TIMELINE_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "xla_patch/nvshmem/gpu/device.h"

namespace xla_shmem::gpu {

// CLOCK_MONOTONIC in nanoseconds: measured by the device's clock if the timeline is timed, else when the thread saw the
// end.
struct DeviceTimes {
  uint64_t begun_ns = 0;  // 0 if not timed
  uint64_t ended_ns = 0;
};

// Collectives of one track end in the order of their starts.
enum class Track : int { kPermutes, kGroups, kInLine };

// Is told what becomes of one collective, on the timeline's thread, in the order of these methods.
class Follower {
 public:
  virtual ~Follower() = default;
  virtual void Reached() = 0;
  virtual void Ended(Track track, const DeviceTimes& times) = 0;
  // The GPU has failed.
  virtual void Failed() = 0;
};

class Timeline {
 public:
  using Question = std::function<Device::Progress()>;

  // `device` must outlive this.
  Timeline(Device* device, bool timed);
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  bool timed() const { return timed_; }
  // An event for TimedFollow, behind everything that `stream` has now.
  EventRef Mark(CudaStream stream) { return device_->Mark(stream, Device::Timing::kTimed); }
  // `begun`, `ended`: from Mark.
  void TimedFollow(Track track, std::shared_ptr<Follower> follower, EventRef begun, std::vector<EventRef> ended);
  void Follow(Track track, std::shared_ptr<Follower> follower, Question reached, Question ended) {
    Add({track, std::move(follower), std::move(reached), std::move(ended)});
  }
  // Whether all events have been reached.
  Question AllReached(std::vector<EventRef> events) const {
    return [device = device_, events = std::move(events)] { return device->QueryAll(events); };
  }
  // Returns once nothing is followed, at the latest after a second.
  void Settle();

 private:
  // A point in time on both clocks. They drift, so there is a new one every few seconds.
  struct Anchor {
    EventRef event;
    uint64_t host_ns;
  };
  struct Entry {
    Track track;
    std::shared_ptr<Follower> follower;
    Question reached;
    Question ended;
    EventRef begun_event = nullptr;                  // null: no times
    std::vector<EventRef> ended_events = {};         // NOLINT(readability-redundant-member-init): else g++ warns
    std::shared_ptr<const Anchor> anchor = nullptr;  // null: no times
    bool was_reached = false;
  };

  void Add(Entry entry);
  // Whether nothing is followed. The caller holds the lock.
  bool IsIdle() const;
  void Run();
  // Whether the entry has ended.
  bool Look(Entry& entry);
  DeviceTimes TimesOf(const Entry& entry) const;
  // Tries to take a new anchor.
  void SetAnchor();

  static constexpr int kTracks = 3;
  Device* const device_;
  const bool timed_;
  CudaStream anchor_stream_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> tracks_[kTracks];
  std::shared_ptr<const Anchor> anchor_;  // null: none could be taken yet
  uint64_t anchor_due_ns_ = 0;            // only on the thread, once it runs
  bool sleeps_ = false;                   // the thread, until it is woken
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_THUNKS_GPU_TIMELINE_H_
