#include "driver/scheduler.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "driver/counts.h"
#include "driver/log.h"
#include "driver/settings.h"

namespace emulator {
namespace {

std::mutex& Mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

// The streams of a hardware queue's operations, in order of submission. Requires Mutex().
std::deque<CUstream>& Queue(int device, int number) {
  static auto* queues = new std::map<std::pair<int, int>, std::deque<CUstream>>;
  return (*queues)[{device, number}];
}

// Streams with a thread. Requires Mutex().
std::vector<CUstream>& Started() {
  static auto* streams = new std::vector<CUstream>;
  return *streams;
}

thread_local RunningOperation running;
thread_local const char* running_work = "";

uint64_t Mix(uint64_t x) {  // the finaliser of splitmix64
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Most operations start at once, a few much later, so that streams overtake each other by one and by many operations.
void HoldBack() {
  static const int64_t longest = Setting("DELAY", 300);
  if (longest <= 0) return;
  const uint64_t decision = Decision(0);
  const uint64_t kind = decision % 8;
  if (kind < 5) return;
  const int64_t limit = kind == 7 ? longest : std::max<int64_t>(longest / 4, 1);
  usleep(static_cast<useconds_t>((decision >> 8) % static_cast<uint64_t>(limit)));
}

bool HoldsQueue(const Operation& operation) {
  return operation.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT || operation.type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP ||
         operation.type == CU_GRAPH_NODE_TYPE_HOST;
}

// Takes the stream's operation from the head of its hardware queue. Requires Mutex().
void LeaveQueue(std::deque<CUstream>* queue) {
  queue->pop_front();
  if (!queue->empty()) queue->front()->changed.notify_all();
}

void RunStream(CUstream stream) {
  running.stream = stream;
  std::unique_lock<std::mutex> lock(Mutex());
  std::deque<CUstream>& queue = Queue(stream->device, stream->hardware_queue);
  for (;;) {
    stream->changed.wait(lock, [&] { return stream->queue.empty() ? stream->closing : queue.front() == stream; });
    if (stream->queue.empty()) break;
    Operation operation = std::move(stream->queue.front());
    stream->queue.pop_front();
    running.number = stream->completed;
    const bool holds = HoldsQueue(operation) || !operation.after.empty();
    if (!holds) LeaveQueue(&queue);
    lock.unlock();
    for (const auto& [other, count] : operation.after) WaitForOperations(other, count);
    HoldBack();
    if (!HasFailed(stream->device)) {
      operation.run();
      Count(stream->id, operation.type, 1, 0);
    }
    operation.run = nullptr;  // what it holds ends before the operation counts as done
    lock.lock();
    if (holds) LeaveQueue(&queue);
    ++stream->completed;
    stream->changed.notify_all();
  }
  auto& started = Started();
  started.erase(std::find(started.begin(), started.end(), stream));
}

}  // namespace

int HardwareQueues() {
  static const int queues = [] {
    const char* text = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    return text == nullptr ? 8 : std::clamp(atoi(text), 1, 32);
  }();
  return queues;
}

uint64_t Submit(CUstream stream, Operation operation) {
  const std::lock_guard<std::mutex> lock(Mutex());
  stream->queue.push_back(std::move(operation));
  Queue(stream->device, stream->hardware_queue).push_back(stream);
  const uint64_t number = ++stream->submitted;
  if (!stream->started) {
    stream->started = true;
    Started().push_back(stream);
    std::thread(RunStream, stream).detach();
  }
  stream->changed.notify_all();
  return number;
}

void WaitForOperations(CUstream stream, uint64_t count) {
  std::unique_lock<std::mutex> lock(Mutex());
  stream->changed.wait(lock, [&] { return stream->completed >= count || HasFailed(stream->device); });
}

bool WaitForOperationsUntil(CUstream stream, uint64_t count, std::chrono::steady_clock::time_point moment) {
  std::unique_lock<std::mutex> lock(Mutex());
  return stream->changed.wait_until(lock, moment,
                                    [&] { return stream->completed >= count || HasFailed(stream->device); });
}

uint64_t Pending(CUstream stream) {
  const std::lock_guard<std::mutex> lock(Mutex());
  return stream->submitted - stream->completed;
}

std::string PendingWork() {
  const std::lock_guard<std::mutex> lock(Mutex());
  std::string text;
  for (const CUstream stream : Started()) {
    if (stream->completed == stream->submitted) continue;
    const uint64_t behind = stream->submitted - stream->completed - 1;
    text += "Stream " + std::to_string(stream->id % kStreamsOfDevice) + " of device " + std::to_string(stream->device) +
            " runs " + (stream->work.empty() ? "an operation" : stream->work) + ", and " + std::to_string(behind) +
            " operations wait behind it. ";
  }
  return text;
}

bool IsBusy(CUstream stream) {
  const std::lock_guard<std::mutex> lock(Mutex());
  return stream->completed < stream->submitted;
}

uint64_t Submitted(CUstream stream) {
  const std::lock_guard<std::mutex> lock(Mutex());
  return stream->submitted;
}

void CloseStream(CUstream stream) {
  const std::lock_guard<std::mutex> lock(Mutex());
  // Others may still ask for operations of this stream, so its memory is kept; its thread ends.
  static auto* destroyed = new std::vector<CUstream>;
  destroyed->push_back(stream);
  stream->closing = true;
  stream->changed.notify_all();
}

void WakeStreams() {
  const std::lock_guard<std::mutex> lock(Mutex());
  for (CUstream stream : Started()) stream->changed.notify_all();
}

void BackOff::Pause() {
  usleep(static_cast<useconds_t>(pause_us_));
  slept_us_ += pause_us_;
  pause_us_ = std::min<int64_t>(pause_us_ * 2, slept_us_ < 20000 ? 200 : 1000);
}

CUstream RunningStream() { return running.stream; }
RunningOperation CurrentOperation() { return running; }
RunAs::RunAs(const RunningOperation& operation) : before_(running) { running = operation; }
RunAs::~RunAs() { running = before_; }

WorkName::WorkName(const char* name) : before_(running_work) {
  running_work = name;
  if (running.stream == nullptr) return;
  const std::lock_guard<std::mutex> lock(Mutex());
  running.stream->work = name;
}
WorkName::~WorkName() { running_work = before_; }
const char* RunningWork() { return running_work; }

uint64_t Decision(uint64_t salt) {
  static const uint64_t seed = static_cast<uint64_t>(Setting("SEED", 1));
  const uint64_t stream = running.stream == nullptr ? ~uint64_t{0} : running.stream->id;
  return Mix(Mix(Mix(Mix(seed) ^ stream) ^ running.number) ^ salt);
}

}  // namespace emulator

bool CUstream_st::Idle() { return !emulator::IsBusy(this); }
void CUstream_st::Wait() { emulator::WaitForOperations(this, emulator::Submitted(this)); }
