#include "driver/blocking.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>

#include "driver/capture.h"
#include "driver/contexts.h"
#include "driver/handles.h"
#include "driver/log.h"
#include "driver/objects.h"
#include "driver/scheduler.h"
#include "driver/settings.h"

namespace emulator {
namespace {

constexpr int64_t kAlways = 2;

int64_t Blocking() {
  static const int64_t setting = Setting("BLOCKING", -1);
  return setting;
}
bool Blocks() { return Blocking() < 0 ? UsedDevices() > 1 : Blocking() != 0; }

// Devices that calls hold.
struct Holds {
  std::mutex mutex;
  std::condition_variable changed;
  std::array<const char*, kMostDevices> by{};  // the call; null if none
};
Holds& TheHolds() {
  static auto* holds = new Holds;
  return *holds;
}

// Who waits for a call that holds a device waits for longer, so that the call tells what it waits for.
std::chrono::seconds Patience() { return std::chrono::seconds(Setting("BLOCKED_TIMEOUT", 120)); }

std::string NamesOf(const std::set<int>& devices) {
  std::string names;
  for (const int device : devices) names += (names.empty() ? "" : ", ") + std::to_string(device);
  return (devices.size() == 1 ? "device " : "devices ") + names;
}

[[noreturn]] void DieWaiting(const char* call, const std::string& what) {
  Die("%s waits for too long for %s. %s", call, what.c_str(), PendingWork().c_str());
}

class Hold {
 public:
  Hold(const std::set<int>& devices, const char* call) : devices_(devices) {
    Holds& holds = TheHolds();
    std::unique_lock<std::mutex> lock(holds.mutex);
    const auto free = [&] {
      return std::all_of(devices.begin(), devices.end(), [&](int device) { return holds.by.at(device) == nullptr; });
    };
    if (!holds.changed.wait_for(lock, 2 * Patience(), free)) DieWaiting(call, "another call on " + NamesOf(devices));
    for (const int device : devices) holds.by.at(device) = call;
  }
  ~Hold() {
    Holds& holds = TheHolds();
    const std::lock_guard<std::mutex> lock(holds.mutex);
    for (const int device : devices_) holds.by.at(device) = nullptr;
    holds.changed.notify_all();
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  const std::set<int>& devices_;
};

// A decision for the calls of the host: by the seed, the device and the number of such calls for it so far.
bool Chosen(int device) {
  static std::array<std::atomic<uint64_t>, kMostDevices> calls{};
  const uint64_t number = calls.at(static_cast<size_t>(device))++;
  constexpr uint64_t kOfHost = 0x686f7374;
  return Blocking() == kAlways || Decision(kOfHost + number * kMostDevices + static_cast<uint64_t>(device)) % 4 == 0;
}

}  // namespace

std::set<int> WithPeers(int device) {
  const Lock lock(Global());
  std::set<int> devices = {device};
  for (int other = 0; other < Visible(); ++other) {
    if (MayUseMemoryOf(device, other) || MayUseMemoryOf(other, device)) devices.insert(other);
  }
  return devices;
}

namespace {

void MayWait(const std::set<int>& devices, const std::set<int>& held, const char* call) {
  if (devices.empty() || !Blocks() || RunningStream() != nullptr || !Chosen(*held.begin())) return;
  TRACE("%s waits for %s", call, NamesOf(devices).c_str());
  const Hold hold(held, call);
  const auto give_up = std::chrono::steady_clock::now() + Patience();
  for (const int device : devices) {
    if (!WaitForDeviceUntil(device, give_up)) DieWaiting(call, "the work of " + NamesOf(devices));
  }
}

}  // namespace

void MayWaitFor(const std::set<int>& devices, const char* call) { MayWait(devices, devices, call); }
void MayWaitForPeersOf(int device, const char* call) { MayWait(WithPeers(device), {device}, call); }

void MayLoad(CUfunction function) {
  if (function->module == nullptr || function->loaded.exchange(true)) return;
  MayWaitFor({function->module->device}, "the first launch of a kernel");
}

void AwaitRoom(CUstream stream) {
  if (!Blocks() || RunningStream() != nullptr) return;
  Holds& holds = TheHolds();
  {
    std::unique_lock<std::mutex> lock(holds.mutex);
    const auto free = [&] { return holds.by.at(stream->device) == nullptr; };
    if (!holds.changed.wait_for(lock, 2 * Patience(), free)) {
      const std::string holder = holds.by.at(stream->device);
      lock.unlock();
      DieWaiting("a launch", holder + ", which holds device " + std::to_string(stream->device));
    }
  }
  static const auto most = static_cast<uint64_t>(Setting("QUEUE", 1024));
  if (Pending(stream) < most) return;
  const std::set<int> device = {stream->device};
  const Hold hold(device, "a launch into a full queue");
  const auto give_up = std::chrono::steady_clock::now() + Patience();
  const uint64_t goal = Submitted(stream) - most + 1;
  if (!WaitForOperationsUntil(stream, goal, give_up)) DieWaiting("a launch", "room in its stream's queue");
}

}  // namespace emulator
