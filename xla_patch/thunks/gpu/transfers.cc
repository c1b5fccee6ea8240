#include "xla_patch/thunks/gpu/transfers.h"

#include <utility>
#include <vector>

#include "xla_patch/thunks/gpu/message_tag.h"
#include "xla_patch/thunks/gpu/pair_rings.h"

namespace xla_shmem::gpu {
namespace {

Status ErrorOf(const std::string& name, const Status& status) {
  return status.ok() ? status : Status::Error(name + ": " + status.message());
}

}  // namespace

Transfers::Transfers(PairRings* rings, Lanes* lanes, SplitPermutes* splits, Watchdog* watchdog, Timeline* timeline,
                     GpuPermute permutes)
    : rings_(rings),
      device_(&rings->device()),
      watchdog_(watchdog),
      lanes_(lanes),
      splits_(splits),
      timeline_(timeline),
      permutes_(permutes),
      permute_streams_{{device_->CreateStream(), device_->CreateStream()}, device_->CreateStream()},
      group_stream_(device_->CreateStream()) {}

template <typename Arguments>
Status Transfers::Check(const Arguments& arguments, Status valid, std::optional<CudaStream> start) {
  if (arguments.tag == 0) {  // all PEs must know the collective by one tag
    valid = Status::Error("it has no tag; please report this");
  } else {
    RememberTag(arguments.tag, arguments.name);
  }
  if (valid.ok()) valid = watchdog_->Check();
  if (valid.ok() && start.has_value() && device_->Capturing(*start)) {
    valid = Status::Error("an overlapping transfer was captured into a CUDA graph, which cannot hold it");
  }
  return ErrorOf(arguments.name, valid);
}

EventRef Transfers::Time(const std::shared_ptr<Follower>& follower, CudaStream stream) const {
  const bool is_timed = follower != nullptr && timeline_->timed();
  return is_timed ? timeline_->Mark(stream) : nullptr;
}

Status Transfers::StartCopies(const TransferKey& key, const PermuteArguments& permute, CudaStream stream) {
  EventRef timed = Time(permute.follower, stream);  // before the event that lets the transfer run
  EventRef begun = device_->Mark(stream);
  std::vector<EventRef> ended;
  std::vector<EventRef> times;
  for (CudaStream used : EnqueuePermute(*rings_, permute, permute_streams_, begun)) {
    ended.push_back(device_->Mark(used));
    if (timed != nullptr) times.push_back(timeline_->Mark(used));
  }
  if (timed != nullptr) {
    timeline_->TimedFollow(Track::kPermutes, permute.follower, std::move(timed), std::move(times));
  } else if (permute.follower != nullptr) {
    timeline_->Follow(Track::kPermutes, permute.follower, timeline_->AllReached({begun}), timeline_->AllReached(ended));
  }
  watchdog_->Watch(std::move(begun), ended, rings_->TakeLateTransfer(permute.name));
  started_[key] = {std::move(ended)};
  return ErrorOf(permute.name, device_->TakeError());
}

Status Transfers::StartPermute(const TransferKey& key, const PermuteArguments& permute, CudaStream stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  XLA_SHMEM_RETURN_IF_ERROR(Check(permute, CheckOverlaps(permute.buffers), stream));
  if (!IsByKernel(permutes_, permute.buffers)) return StartCopies(key, permute, stream);
  if (!splits_->Fits(permute.buffers)) return StartKernel(key, permute, /*alone=*/false, stream);
  return StartSplit(key, permute, stream);
}

Status Transfers::StartSplit(const TransferKey& key, const PermuteArguments& permute, CudaStream stream) {
  EventRef begun = Time(permute.follower, stream);
  SplitPermutes::Started split = splits_->Start(permute, stream);
  started_[key] = {};
  if (const std::optional<PermuteArguments> rest = splits_->RestOf(split); rest.has_value()) {
    XLA_SHMEM_RETURN_IF_ERROR(StartKernel(key, *rest, /*alone=*/false, stream));  // which is followed
    split.permute.follower = nullptr;
  }
  started_[key].split = std::move(split);
  started_[key].begun = std::move(begun);
  return ErrorOf(permute.name, device_->TakeError());
}

void Transfers::WatchLanes(LaneUse use) {
  bool& watched = lanes_watched_[use == LaneUse::kInLine ? 1 : 0];
  if (!watched) watchdog_->WatchKernels(lanes_->progress(use));
  watched = true;
}

Status Transfers::StartGroup(const TransferKey& key, const GroupArguments& group, CudaStream stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  XLA_SHMEM_RETURN_IF_ERROR(Check(group, CheckGroup(group, rings_->pe()), stream));
  return StartKernel(key, group, group.group.size() < 2 && group.op != CollectiveOp::kRaggedAllToAll, stream);
}

template <typename Arguments>
Status Transfers::StartKernel(const TransferKey& key, const Arguments& arguments, bool alone, CudaStream stream) {
  WatchLanes(LaneUse::kOverlapping);
  EventRef begun = Time(arguments.follower, stream);
  const CudaStream lanes = alone ? stream : group_stream_;
  if (!alone) device_->Order(lanes, stream);
  const KernelTicket ticket = lanes_->Enqueue(LaneUse::kOverlapping, arguments, lanes);
  FollowKernels(Track::kGroups, arguments.follower, std::move(begun), ticket, ticket, lanes);
  started_[key] = {};
  if (!alone) started_[key].events = {device_->Mark(lanes)};
  return ErrorOf(arguments.name, device_->TakeError());
}

void Transfers::FollowKernels(Track track, const std::shared_ptr<Follower>& follower, EventRef begun,
                              KernelTicket first, KernelTicket last, CudaStream stream) {
  if (follower == nullptr) return;
  if (begun != nullptr) {
    timeline_->TimedFollow(track, follower, std::move(begun), {timeline_->Mark(stream)});
    return;
  }
  timeline_->Follow(
      track, follower, [first] { return first.IsReached() ? Device::Progress::kDone : Device::Progress::kRunning; },
      [this, last] {
        if (last.IsFinished()) return Device::Progress::kDone;
        return watchdog_->Check().ok() ? Device::Progress::kRunning : Device::Progress::kFailed;
      });
}

Status Transfers::RunPermute(const PermuteArguments& permute, CudaStream stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  XLA_SHMEM_RETURN_IF_ERROR(Check(permute, CheckOverlaps(permute.buffers)));
  return RunKernel(permute, stream);
}

Status Transfers::RunGroup(const GroupArguments& group, CudaStream stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  XLA_SHMEM_RETURN_IF_ERROR(Check(group, CheckGroup(group, rings_->pe())));
  return RunKernel(group, stream);
}

Status Transfers::CheckInLine(CudaStream stream, bool in_graph) {
  if (in_graph) return {};
  // Once its calls have ended another stream may take its place: after clear_backends JAX has a client with new
  // streams. Whether a graph with calls still runs is not known here.
  const bool is_idle = lanes_->captured() == 0 && in_line_ticket_.IsFinished();
  if (in_line_stream_ == nullptr || is_idle) in_line_stream_ = stream;
  if (in_line_stream_ == stream) return {};
  return Status::Error(
      "it runs on a second stream of XLA, where its messages could meet those of the first: take it out of compute_on "
      "and other annotations of streams, or out of XLA_SHMEM_OPS");
}

template <typename Arguments>
Status Transfers::RunKernel(const Arguments& arguments, CudaStream stream) {
  WatchLanes(LaneUse::kInLine);
  const bool in_graph = device_->Capturing(stream);
  if (const Status status = CheckInLine(stream, in_graph); !status.ok()) return ErrorOf(arguments.name, status);
  EventRef begun = in_graph ? nullptr : Time(arguments.follower, stream);
  const KernelTicket ticket = lanes_->Enqueue(LaneUse::kInLine, arguments, stream, in_graph);
  if (ticket.lanes != nullptr) in_line_ticket_ = ticket;
  if (!in_graph) FollowKernels(Track::kInLine, arguments.follower, std::move(begun), ticket, ticket, stream);
  return ErrorOf(arguments.name, device_->TakeError());
}

Transfers::InGraphs Transfers::in_graphs() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {lanes_->captured(), lanes_->finished_in_graphs()};
}

Status Transfers::Finish(const TransferKey& key, const std::string& name, CudaStream stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = started_.find(key);
  if (found == started_.end()) return Status::Error(name + ": its done ran without its start");
  Started started = std::move(found->second);
  started_.erase(found);
  for (const EventRef& event : started.events) device_->WaitFor(event, stream);
  if (started.split.has_value()) {
    const KernelTicket last = splits_->Finish(*started.split, stream);
    const KernelTicket sent = started.split->ticket;
    FollowKernels(Track::kInLine, started.split->permute.follower, std::move(started.begun),
                  sent.lanes != nullptr ? sent : last, last, stream);
  }
  const Status failure = watchdog_->Check();
  const Status status = device_->TakeError();
  return failure.ok() ? ErrorOf(name, status) : failure;
}

}  // namespace xla_shmem::gpu
