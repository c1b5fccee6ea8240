#include "nccl/windows.h"

#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "driver/device_view.h"
#include "driver/settings.h"
#include "driver/shared_object.h"

namespace emulator::nccl {
namespace {

constexpr uint64_t kAlignment = 4096;  // NCCL_WIN_REQUIRED_ALIGNMENT
constexpr int kSymmetric = 1;          // NCCL_WIN_COLL_SYMMETRIC

struct Message {
  Signal signal;
  int window;
  uint64_t offset;
  std::vector<char> bytes;
  bool has_landed;
};

// The ranks of a clique in this process.
struct Windows {
  std::map<int, std::vector<Window*>> of_rank;            // by rank and number; null where it is no more
  std::map<std::pair<int, int>, std::deque<Message>> on;  // the way, by sender and receiver
};

std::mutex& Mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

Windows& WindowsOf(const Communicator& communicator) {
  static auto* const all = new std::map<std::string, Windows>;
  return (*all)[communicator.name()];
}

std::string Who(const Communicator& communicator) { return "rank " + std::to_string(communicator.rank()); }

void Land(Windows& windows, int receiver, Message& message) {
  if (message.has_landed || message.bytes.empty()) return;
  const std::vector<Window*>& there = windows.of_rank[receiver];
  const std::string put =
      "a put into window " + std::to_string(message.window) + " of rank " + std::to_string(receiver);
  Demand(!there.empty(), put + ", which is in another process: not emulated");
  const Window* const window = there.at(static_cast<size_t>(message.window));
  Demand(window != nullptr, put + ", which is deregistered");
  memcpy(DeviceView(window->base + message.offset), message.bytes.data(), message.bytes.size());
  message.has_landed = true;
}

}  // namespace

Window* RegisterWindow(Communicator* communicator, void* buffer, size_t bytes, int flags) {
  const std::string window = "a window of " + std::to_string(bytes) + " bytes of " + Who(*communicator);
  Demand(buffer != nullptr && bytes > 0, window + " without memory");
  Demand(flags == kSymmetric, window + " with flags " + std::to_string(flags) + ", which are not emulated");
  Demand(reinterpret_cast<uintptr_t>(buffer) % kAlignment == 0,
         window + " that does not begin at a multiple of " + std::to_string(kAlignment));
  CUmemGenericAllocationHandle handle = 0;
  Demand(cuMemRetainAllocationHandle(&handle, buffer) == CUDA_SUCCESS,
         window + " in memory that is neither of ncclMemAlloc nor of cuMemCreate");
  cuMemRelease(handle);
  auto* const made = new Window{communicator, static_cast<char*>(buffer), bytes};
  const int number = [&] {
    const std::lock_guard<std::mutex> lock(Mutex());
    std::vector<Window*>& own = WindowsOf(*communicator).of_rank[communicator->rank()];
    made->number = communicator->ShowWindow(bytes);
    own.resize(static_cast<size_t>(made->number) + 1);
    own.back() = made;
    return made->number;
  }();
  const int64_t seconds = Setting("NCCL_TIMEOUT", 60);
  for (int rank = 0; rank < communicator->ranks(); ++rank) {
    uint64_t others = 0;
    Demand(
        WaitFor(seconds, [&] { return (others = communicator->WindowOf(rank, number)) != 0; }),
        window + ": rank " + std::to_string(rank) + " did not register its own in " + std::to_string(seconds) + " s");
    Demand(others == bytes, window + ", but that of rank " + std::to_string(rank) + " has " + std::to_string(others));
  }
  return made;
}

void DeregisterWindow(Communicator* communicator, Window* window) {
  const std::lock_guard<std::mutex> lock(Mutex());
  for (Window*& own : WindowsOf(*communicator).of_rank[communicator->rank()]) {
    if (own != window || window == nullptr) continue;
    own = nullptr;
    delete window;
    return;
  }
  Refuse("ncclCommWindowDeregister of what is no window of " + Who(*communicator));
}

void Put(Communicator& communicator, int peer, const Window* window, uint64_t offset, const char* from, uint64_t bytes,
         Signal signal) {
  Message message{signal, window == nullptr ? -1 : window->number, offset, {}, false};
  if (bytes > 0) message.bytes.assign(DeviceView(from), DeviceView(from) + bytes);
  const std::lock_guard<std::mutex> lock(Mutex());
  Windows& windows = WindowsOf(communicator);
  if (communicator.NextIsEarly()) Land(windows, peer, message);
  windows.on[{communicator.rank(), peer}].push_back(std::move(message));
}

bool TakeSignal(Communicator& communicator, int peer, Signal signal) {
  const std::lock_guard<std::mutex> lock(Mutex());
  Windows& windows = WindowsOf(communicator);
  std::deque<Message>& messages = windows.on[{peer, communicator.rank()}];
  for (auto message = messages.begin(); message != messages.end(); ++message) {
    if (message->signal.index != signal.index || message->signal.context != signal.context) continue;
    Land(windows, communicator.rank(), *message);
    messages.erase(message);
    return true;
  }
  return false;
}

void DemandInWindow(const Communicator& communicator, const char* from, uint64_t bytes, const char* call) {
  const std::lock_guard<std::mutex> lock(Mutex());
  for (const Window* window : WindowsOf(communicator).of_rank[communicator.rank()]) {
    if (window != nullptr && window->base <= from && from + bytes <= window->base + window->bytes) return;
  }
  Refuse(std::string(call) + " of " + Who(communicator) + " from memory that is in no window");
}

void DropWindows(const Communicator* communicator) {
  const std::lock_guard<std::mutex> lock(Mutex());
  for (Window*& own : WindowsOf(*communicator).of_rank[communicator->rank()]) {
    delete own;
    own = nullptr;
  }
}

}  // namespace emulator::nccl
