#include "xla_patch/shm/copy_costs.h"

#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

namespace xla_shmem::shm {
namespace {

using Nanoseconds = std::chrono::nanoseconds;

constexpr int kRounds = 20;
constexpr size_t kSlotsBytes = 512 << 10;  // of a message in flight (thunks/cpu/blocks.h)

// Pages of 4 KiB. Mapped for the measurement alone, because madvise on memory from malloc would outlast its use here.
// Begins at a page boundary, so that the buffers are not 4k-aliased (copy.h): XLA's are multiples of 64 bytes apart.
class Memory {
 public:
  explicit Memory(size_t bytes)
      : bytes_(bytes), mapped_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (mapped_ == MAP_FAILED) return;
    madvise(mapped_, bytes, MADV_NOHUGEPAGE);
    memset(mapped_, 1, bytes);
  }
  ~Memory() {
    if (mapped_ != MAP_FAILED) munmap(mapped_, bytes_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // nullptr if the system has no memory.
  char* data() const { return mapped_ == MAP_FAILED ? nullptr : static_cast<char*>(mapped_); }

 private:
  const size_t bytes_;
  void* const mapped_;
};

Nanoseconds ProcessorTime() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + Nanoseconds(now.tv_nsec);
}

template <typename Function>
Nanoseconds TimeOf(Function function) {
  const Nanoseconds start = ProcessorTime();
  function();
  asm volatile("" ::: "memory");  // the compiler must not drop it
  return ProcessorTime() - start;
}

int TopologyOf(int processor, const char* entry) {
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(processor) + "/topology/" + entry);
  int value = -1;
  return file >> value ? value : -1;
}

// Binds the calling thread to another core than that of `processor`, even if a launcher has bound the process to that
// core alone.
void LeaveCore(int processor) {
  const auto total = static_cast<int>(std::min<long>(sysconf(_SC_NPROCESSORS_CONF), CPU_SETSIZE));
  for (int step = 1; step < total; ++step) {
    const int other = (processor + step) % total;
    const int core = TopologyOf(other, "core_id");
    const bool is_sibling = core >= 0 && core == TopologyOf(processor, "core_id") &&
                            TopologyOf(other, "physical_package_id") == TopologyOf(processor, "physical_package_id");
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(other, &only);
    if (!is_sibling && sched_setaffinity(0, sizeof(only), &only) == 0) return;
  }
}

enum class Side { kSender, kReceiver };

// The two sides take turns, the sender first.
class Turns {
 public:
  template <typename Function>
  void Take(Side side, Function function) {
    while (next_.load(std::memory_order_acquire) != side) sched_yield();
    function();
    next_.store(side == Side::kSender ? Side::kReceiver : Side::kSender, std::memory_order_release);
  }

 private:
  std::atomic<Side> next_{Side::kSender};
};

}  // namespace

std::optional<CopyCosts> MeasureCopies(size_t bytes) {
  const Memory source(bytes), slots(kSlotsBytes), result(bytes);
  if (source.data() == nullptr || slots.data() == nullptr || result.data() == nullptr) return std::nullopt;
  Turns turns;
  Nanoseconds into_slots = Nanoseconds::max(), out_of_slots = Nanoseconds::max(), read = Nanoseconds::max();
  const auto send = [&, processor = sched_getcpu()] {
    LeaveCore(processor);
    for (int round = 0; round < kRounds; ++round) {
      turns.Take(Side::kSender, [&] { memset(source.data(), round, bytes); });
      turns.Take(Side::kSender, [&] { memset(source.data(), round + 1, bytes); });
      Nanoseconds spent{0};
      for (size_t at = 0; at < bytes; at += kSlotsBytes) {
        const size_t part = std::min(kSlotsBytes, bytes - at);
        turns.Take(Side::kSender, [&] { spent += TimeOf([&] { memcpy(slots.data(), source.data() + at, part); }); });
      }
      into_slots = std::min(into_slots, spent);
    }
  };
  std::thread sender;
  try {
    sender = std::thread(send);
  } catch (const std::system_error&) {
    return std::nullopt;
  }
  const iovec remote{source.data(), bytes}, local{result.data(), bytes};
  bool is_permitted = true;
  for (int round = 0; round < kRounds; ++round) {
    turns.Take(Side::kReceiver, [&] {
      read = std::min(read, TimeOf([&] {
                        const ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
                        is_permitted = is_permitted && got == static_cast<ssize_t>(bytes);
                      }));
    });
    turns.Take(Side::kReceiver, [] {});
    Nanoseconds spent{0};
    for (size_t at = 0; at < bytes; at += kSlotsBytes) {
      const size_t part = std::min(kSlotsBytes, bytes - at);
      turns.Take(Side::kReceiver, [&] { spent += TimeOf([&] { memcpy(result.data() + at, slots.data(), part); }); });
    }
    out_of_slots = std::min(out_of_slots, spent);
  }
  sender.join();
  if (!is_permitted) return std::nullopt;
  return CopyCosts{read, into_slots + out_of_slots};
}

}  // namespace xla_shmem::shm
