#include "xla_patch/nvshmem/gpu/watchdog.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <utility>

#include "xla_patch/types/time_limit.h"

namespace xla_shmem::gpu {
namespace {

constexpr std::chrono::milliseconds kPoll{100};
constexpr std::chrono::seconds kAskPeers{1};
constexpr char kPastDeadline[] = "; gave up after the deadline (XLA_SHMEM_DEADLINE)";
// For the counters of a late transfer (thunks/gpu/pair_rings.cc): each is read within a second.
constexpr std::chrono::seconds kDescribeTime{2};

std::string Seconds(std::chrono::nanoseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace

void Watchdog::PrintOrExit(Event event, const std::string& reason) {
  fprintf(stderr, "xla_shmem: %s\n", reason.c_str());
  fflush(stderr);
  if (event == Watchdog::Event::kStuck) std::_Exit(70);
}

Watchdog::Watchdog(Device* device, std::chrono::nanoseconds deadline, OnEvent on_event, std::chrono::milliseconds grace,
                   std::chrono::milliseconds late_after)
    : device_(device),
      deadline_(deadline),
      on_event_(on_event ? std::move(on_event) : OnEvent(PrintOrExit)),
      grace_(grace),
      late_after_(late_after),
      trap_stream_(device->CreateStream()) {
  device->PrepareReads();
  ExpectNoAnswer();
  thread_ = std::thread([this] { Run(); });
  guard_ = std::thread([this] { Guard(); });
}

Watchdog::~Watchdog() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
  guard_.join();
}

void Watchdog::Watch(EventRef begun, std::vector<EventRef> events, LateTransfer late) {
  std::lock_guard<std::mutex> lock(mutex_);
  entries_.push_back({std::move(begun), std::move(events), {}, std::move(late)});
  if (entries_.size() == 1) wake_.notify_all();
}

void Watchdog::WatchKernels(KernelProgress progress) {
  std::lock_guard<std::mutex> lock(mutex_);
  kernels_.push_back({std::move(progress), 0, {}});
  wake_.notify_all();
}

void Watchdog::SetAskPeers(std::function<PeerFacts()> ask) {
  std::lock_guard<std::mutex> lock(mutex_);
  ask_peers_ = std::move(ask);
}

Status Watchdog::Check() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_.empty() ? Status() : Status::Error(failure_);
}

void Watchdog::Fail(const std::string& reason) { Report({reason, {}}); }

void Watchdog::Report(const Failure& failure) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_.empty()) return;
    failure_ = failure.reason;
  }
  on_event_(Event::kLate, failure.reason);
  if (failure.describe) {
    const std::string described = failure.describe();
    if (described != failure.reason) {
      on_event_(Event::kDescribed, described);
      std::lock_guard<std::mutex> lock(mutex_);
      failure_ = described;
    }
  }
  // A kernel that waits can end itself, also where the trap finds no place on the GPU.
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const WatchedKernels& watched : kernels_) {
      __atomic_store_n(watched.progress.words + kOrder, kOrderTrap, __ATOMIC_RELEASE);
    }
  }
  device_->Trap(trap_stream_);
}

std::optional<Watchdog::Failure> Watchdog::Judge(Clock::time_point since, const LateTransfer& late) {
  const Clock::time_point now = Clock::now();
  if (now - since >= deadline_) {
    std::function<std::string()> describe;
    if (late.describe) describe = [read = late.describe] { return read() + kPastDeadline; };
    return Failure{late.waits_for + kPastDeadline, std::move(describe)};
  }
  if (now - since < std::min<std::chrono::nanoseconds>(kAskPeers, late_after_)) return std::nullopt;
  if (now >= next_question_) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto ask = ask_peers_;
    lock.unlock();
    facts_ = ask ? ask() : PeerFacts();
    next_question_ = now + kAskPeers;
  }
  if (!facts_.lost.empty()) return Failure{late.waits_for + "; " + facts_.lost, {}};
  TellIfLate(since, late, facts_.late);
  return std::nullopt;
}

void Watchdog::TellIfLate(Clock::time_point since, const LateTransfer& late, const std::string& facts) {
  if (since != told_since_) {
    told_since_ = since;
    next_line_ = since + late_after_;
  }
  const Clock::time_point now = Clock::now();
  if (now < next_line_) return;
  next_line_ = since + 2 * (now - since);
  on_event_(Event::kWaits, late.waits_for + "; no progress for " + Seconds(now - since) + facts + "; goes on waiting" +
                               (IsLimit(deadline_) ? " until the deadline of " + Seconds(deadline_) : "") +
                               " (XLA_SHMEM_DEADLINE)");
}

// Drops finished entries from the front: later transfers are enqueued behind earlier ones.
std::optional<Watchdog::Failure> Watchdog::CheckTransfers(std::list<Entry>& entries) {
  for (; !entries.empty(); entries.pop_front()) {
    Entry& entry = entries.front();
    const bool is_new = entry.begun != nullptr;
    if (is_new) {
      if (device_->Query(entry.begun) == Device::Progress::kRunning) return std::nullopt;
      entry.begun.reset();
      entry.since = Clock::now();
    }
    const Device::Progress progress = device_->QueryAll(entry.events);
    if (progress == Device::Progress::kFailed) {
      return Failure{"the GPU reports an error on the streams of xla-shmem", {}};
    }
    if (progress == Device::Progress::kDone) continue;
    if (std::optional<Failure> failure = Judge(entry.since, entry.late); failure.has_value()) return failure;
    const std::string fault = is_new || !entry.late.find_fault ? "" : entry.late.find_fault();
    return fault.empty() ? std::nullopt : std::optional<Failure>({fault, {}});
  }
  return std::nullopt;
}

// Fails if a kernel cannot go on, or has been running for as long as the deadline.
std::optional<Watchdog::Failure> Watchdog::CheckKernels() {
  const Clock::time_point now = Clock::now();
  std::unique_lock<std::mutex> lock(mutex_);
  for (WatchedKernels& watched : kernels_) {  // none is ever removed
    lock.unlock();
    const uint64_t* const words = watched.progress.words;
    const bool at_fault = __atomic_load_n(words + kFault, __ATOMIC_ACQUIRE) != kNoFault;
    const uint64_t ended = __atomic_load_n(words + kEnded, __ATOMIC_ACQUIRE);
    const uint64_t begun = __atomic_load_n(words + kBegun, __ATOMIC_ACQUIRE);
    if (!at_fault && (begun <= ended || begun != watched.begun_seen)) {
      watched.begun_seen = begun;
      watched.since = now;
    } else {
      LateTransfer late =
          watched.progress.describe(NumberOfWord(__atomic_load_n(words + kOperation, __ATOMIC_ACQUIRE)));
      if (at_fault) return Failure{std::move(late.waits_for), std::move(late.describe)};
      if (std::optional<Failure> failure = Judge(watched.since, late); failure.has_value()) return failure;
    }
    lock.lock();
  }
  return std::nullopt;
}

// Waits for the streams to end after the trap.
void Watchdog::End(std::list<Entry>& entries) {
  const auto give_up = Clock::now() + grace_;
  const EventRef trapped = device_->Mark(trap_stream_);
  const auto running = [&](const Entry& entry) {
    return device_->QueryAll(entry.events) == Device::Progress::kRunning;
  };
  while (std::any_of(entries.begin(), entries.end(), running) ||
         device_->Query(trapped) == Device::Progress::kRunning) {
    if (Clock::now() >= give_up) {
      return on_event_(Event::kStuck, "the GPU's streams do not end after this error; the process exits");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void Watchdog::ExpectAnswerWithin(std::chrono::nanoseconds time) {
  answer_by_.store((Clock::now() + time).time_since_epoch().count());
}

void Watchdog::ExpectNoAnswer() { answer_by_.store(std::numeric_limits<Clock::rep>::max()); }

void Watchdog::Guard() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    wake_.wait_for(lock, kPoll);
    if (Clock::now().time_since_epoch().count() < answer_by_.load()) continue;
    ExpectNoAnswer();
    const std::string after = failure_.empty()
                                  ? "has not answered for " + Seconds(AnswerTime()) + "; unfinished: " + oldest_
                                  : "does not answer after this error: " + failure_;
    // A call also blocks if another thread waits for room in a queue behind a late peer.
    const bool waits = failure_.empty() && !IsLimit(deadline_);
    lock.unlock();
    on_event_(waits ? Event::kWaits : Event::kStuck,
              "the CUDA driver " + after + (waits ? "; goes on waiting (XLA_SHMEM_DEADLINE)" : "; the process exits"));
    lock.lock();
  }
}

void Watchdog::Run() {
  const ScopedContext context(*device_);
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    if (entries_.empty() && kernels_.empty()) {
      wake_.wait(lock);
    } else {
      wake_.wait_for(lock, kPoll);
    }
    if (!failure_.empty()) {
      // The job has failed already.
      entries_.clear();
      continue;
    }
    std::list<Entry> checked = std::move(entries_);
    entries_.clear();
    oldest_ = checked.empty() ? "" : checked.front().late.waits_for;
    lock.unlock();
    ExpectAnswerWithin(AnswerTime());
    std::optional<Failure> failure = CheckTransfers(checked);
    if (!failure.has_value()) failure = CheckKernels();
    if (failure.has_value()) {
      ExpectAnswerWithin(grace_ + kDescribeTime);
      Report(*failure);
      End(checked);
      checked.clear();
    }
    ExpectNoAnswer();
    lock.lock();
    entries_.splice(entries_.begin(), checked);
  }
}

}  // namespace xla_shmem::gpu
