#include "nccl/plan.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <thread>
#include <utility>

#include "driver/device_view.h"
#include "driver/named_kernels.h"
#include "driver/settings.h"
#include "nccl/nccl_numbers.h"
#include "nccl/reduction.h"

namespace emulator::nccl {
namespace {

constexpr const char* kNames[] = {"ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclBroadcast",
                                  "ncclReduce",    "ncclAlltoAll",  "ncclSend",          "ncclRecv",
                                  "ncclPutSignal", "ncclWaitSignal"};

// Goes before the bytes of each message, so that the receiver sees whether both ranks are in the same call.
struct Header {
  uint32_t call, type, detail;  // detail: the reduction and the root
  uint32_t padding;
  uint64_t count;
};

Header HeaderOf(const Operation& operation) {
  // The two ends of a transfer are one call here.
  const bool pair = operation.call == Call::kSend || operation.call == Call::kReceive;
  const uint32_t detail = pair ? 0 : static_cast<uint32_t>(operation.peer) << 8 | operation.reduction;
  const Call call = pair ? Call::kSend : operation.call;
  return {static_cast<uint32_t>(call), static_cast<uint32_t>(operation.type), detail, 0, operation.count};
}

std::string Describe(const Header& header) {
  const std::string name = header.call < std::size(kNames) ? kNames[header.call] : "an unknown call";
  return name + " of " + std::to_string(header.count) + " elements of type " + std::to_string(header.type) +
         (header.detail == 0 ? "" : " (" + std::to_string(header.detail) + ")");
}

// One end of a message.
struct End {
  const Operation* operation;
  int peer;
  char* place;
  uint64_t bytes;
  uint64_t moved = 0;  // of header and bytes
  Header received = {};
};

class Runner {
 public:
  explicit Runner(const Plan& plan) : communicator_(*plan.communicator) {
    for (const Operation& operation : plan.operations) Add(operation);
  }

  // False if the GPU or the communicator has failed.
  bool Exchange() {
    const int64_t seconds = Setting("NCCL_TIMEOUT", 60);
    auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    auto pause = kShortestPause;
    while (!ends_.empty() || !waits_.empty()) {
      if (Move() || TakeSignals()) {
        give_up = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
        pause = kShortestPause;
        continue;
      }
      if (communicator_.aborted() || gpu_emulator_failed() != 0) return false;
      if (std::chrono::steady_clock::now() > give_up) RefuseToWait();
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, kLongestPause);
    }
    return true;
  }

  // What remains to do once all messages have come.
  void Finish() {
    for (const Sum& sum : sums_) {
      const int n = communicator_.ranks();
      std::vector<char> total;
      for (int k = 0; k < n; ++k) {
        const int rank = (communicator_.first_summand() + k) % n;
        const char* const summand = rank == communicator_.rank() ? sum.own : sum.received.at(rank).data();
        if (k == 0) {
          total.assign(summand, summand + sum.bytes);
        } else {
          Reduce(sum.operation->type, sum.operation->reduction, total.data(), summand, sum.operation->count);
        }
      }
      memcpy(sum.to, total.data(), sum.bytes);
    }
    for (const Copy& copy : copies_) {
      if (copy.to != copy.from) memmove(copy.to, copy.from, copy.bytes);
    }
  }

 private:
  static constexpr std::chrono::microseconds kShortestPause{20}, kLongestPause{1000};

  struct Sum {
    const Operation* operation;
    const char* own;
    char* to;
    uint64_t bytes;
    std::map<int, std::vector<char>> received;
  };
  struct Wait {
    const Operation* operation;
    uint64_t left;
  };
  struct Copy {
    char* to;
    const char* from;
    uint64_t bytes;
  };

  void Send(const Operation& operation, int peer, const char* from, uint64_t bytes) {
    ends_[{peer, true}].push_back({&operation, peer, const_cast<char*>(from), bytes});
  }
  void Receive(const Operation& operation, int peer, char* to, uint64_t bytes) {
    ends_[{peer, false}].push_back({&operation, peer, to, bytes});
  }

  // Part `stride` * j of the operand goes to rank j, and part j of the result comes from there.
  void Swap(const Operation& operation, uint64_t bytes, uint64_t send_stride) {
    const char* const from = DeviceView(operation.from);
    char* const to = DeviceView(operation.to);
    const int me = communicator_.rank();
    for (int peer = 0; peer < communicator_.ranks(); ++peer) {
      const char* const part = from + send_stride * static_cast<uint64_t>(peer);
      char* const place = to + bytes * static_cast<uint64_t>(peer);
      if (peer == me) {
        copies_.push_back({place, part, bytes});
      } else {
        Send(operation, peer, part, bytes);
        Receive(operation, peer, place, bytes);
      }
    }
  }

  // All ranks send `bytes` of their operands, at `stride` * j for rank j, to each rank that reduces.
  void Total(const Operation& operation, uint64_t bytes, uint64_t stride, bool everywhere) {
    const char* const from = DeviceView(operation.from);
    const int me = communicator_.rank();
    const bool here = everywhere || operation.peer == me;
    Sum sum{&operation, from + stride * static_cast<uint64_t>(me), DeviceView(operation.to), bytes, {}};
    for (int peer = 0; peer < communicator_.ranks(); ++peer) {
      if (peer == me) continue;
      if (everywhere || operation.peer == peer)
        Send(operation, peer, from + stride * static_cast<uint64_t>(peer), bytes);
      if (!here) continue;
      std::vector<char>& room = sum.received[peer];
      room.resize(bytes);
      Receive(operation, peer, room.data(), bytes);
    }
    if (here) sums_.push_back(std::move(sum));  // the memory of its rooms does not move
  }

  void Broadcast(const Operation& operation, uint64_t bytes) {
    if (operation.peer != communicator_.rank())
      return Receive(operation, operation.peer, DeviceView(operation.to), bytes);
    copies_.push_back({DeviceView(operation.to), DeviceView(operation.from), bytes});
    for (int peer = 0; peer < communicator_.ranks(); ++peer) {
      if (peer != operation.peer) Send(operation, peer, DeviceView(operation.from), bytes);
    }
  }

  void Add(const Operation& operation) {
    const uint64_t bytes = operation.count * BytesOf(operation.type);
    switch (operation.call) {
      case Call::kAllReduce:
        return Total(operation, bytes, 0, true);
      case Call::kReduceScatter:
        return Total(operation, bytes, bytes, true);
      case Call::kReduce:
        return Total(operation, bytes, 0, false);
      case Call::kAllGather:
        return Swap(operation, bytes, 0);
      case Call::kAllToAll:
        return Swap(operation, bytes, bytes);
      case Call::kBroadcast:
        return Broadcast(operation, bytes);
      case Call::kSend:
        return Send(operation, operation.peer, DeviceView(operation.from), bytes);
      case Call::kReceive:
        return Receive(operation, operation.peer, DeviceView(operation.to), bytes);
      case Call::kPut:
        return Put(communicator_, operation.peer, operation.window, operation.offset, operation.from, bytes,
                   operation.signal);
      case Call::kWait:
        waits_.push_back({&operation, operation.count});
    }
  }

  // Takes the signals that have come; false if none has.
  bool TakeSignals() {
    bool any = false;
    for (auto wait = waits_.begin(); wait != waits_.end();) {
      while (wait->left > 0 && TakeSignal(communicator_, wait->operation->peer, wait->operation->signal)) {
        --wait->left;
        any = true;
      }
      wait = wait->left == 0 ? waits_.erase(wait) : std::next(wait);
    }
    return any;
  }

  // Moves what can be moved of the first message to and from each peer; false if nothing can.
  bool Move() {
    bool any = false;
    for (auto queue = ends_.begin(); queue != ends_.end();) {
      const bool sends = queue->first.second;
      End& end = queue->second.front();
      any |= sends ? MoveOut(end) : MoveIn(end);
      if (end.moved == sizeof(Header) + end.bytes) queue->second.pop_front();
      queue = queue->second.empty() ? ends_.erase(queue) : std::next(queue);
    }
    return any;
  }

  bool MoveOut(End& end) {
    const Header header = HeaderOf(*end.operation);
    const uint64_t before = end.moved;
    Channel& channel = communicator_.To(end.peer);
    if (end.moved < sizeof(Header)) {
      end.moved += channel.Put(reinterpret_cast<const char*>(&header) + end.moved, sizeof(Header) - end.moved);
    }
    if (end.moved >= sizeof(Header)) {
      const uint64_t at = end.moved - sizeof(Header);
      end.moved += channel.Put(end.place + at, end.bytes - at);
    }
    return end.moved != before;
  }

  bool MoveIn(End& end) {
    const uint64_t before = end.moved;
    Channel& channel = communicator_.From(end.peer);
    if (end.moved < sizeof(Header)) {
      end.moved += channel.Take(reinterpret_cast<char*>(&end.received) + end.moved, sizeof(Header) - end.moved);
      if (end.moved == sizeof(Header)) CheckSame(end);
    }
    if (end.moved >= sizeof(Header)) {
      const uint64_t at = end.moved - sizeof(Header);
      end.moved += channel.Take(end.place + at, end.bytes - at);
    }
    return end.moved != before;
  }

  void CheckSame(const End& end) const {
    const Header expected = HeaderOf(*end.operation);
    if (memcmp(&expected, &end.received, sizeof(Header)) == 0) return;
    Refuse("rank " + std::to_string(communicator_.rank()) + " is in " + Describe(expected) + ", but rank " +
           std::to_string(end.peer) + " is in " + Describe(end.received));
  }

  [[noreturn]] void RefuseToWait() const {
    if (ends_.empty()) {
      const Operation& wait = *waits_[0].operation;
      Refuse("rank " + std::to_string(communicator_.rank()) + " waits for " + std::to_string(waits_[0].left) +
             " more signals of rank " + std::to_string(wait.peer));
    }
    const End& end = ends_.begin()->second.front();
    Refuse("rank " + std::to_string(communicator_.rank()) + " waits for rank " + std::to_string(end.peer) +
           (communicator_.IsGone(end.peer) ? ", which has ended its communicator," : "") + " in " +
           emulator::nccl::Describe(*end.operation));
  }

  Communicator& communicator_;
  std::map<std::pair<int, bool>, std::deque<End>> ends_;  // by peer, and whether it is a send
  std::vector<Wait> waits_;
  std::vector<Sum> sums_;
  std::vector<Copy> copies_;
};

}  // namespace

std::string Describe(const Operation& operation) {
  return std::string(kNames[static_cast<int>(operation.call)]) + " of " + std::to_string(operation.count) +
         " elements of type " + std::to_string(operation.type);
}

void Run(const Plan& plan) {
  if (!plan.communicator->BeginOperation(plan.ticket)) return;
  Runner runner(plan);
  if (runner.Exchange()) runner.Finish();
  plan.communicator->EndOperation(plan.ticket);
}

}  // namespace emulator::nccl
