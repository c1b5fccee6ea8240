// Collectives of a process that has no more memory. Replaces the allocation of the whole test program.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "xla_patch/thunks/cpu/in_process_collective.h"

namespace {
thread_local bool has_no_memory = false;
}  // namespace

void* operator new(size_t bytes) {
  void* const memory = has_no_memory ? nullptr : malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t /*bytes*/) noexcept { free(memory); }

namespace xla_shmem::testing {
namespace {

using namespace std::chrono_literals;

// Two buffers of PEs of one process, which are exchanged. Such moves need memory.
struct Exchange {
  std::vector<char> memory = std::vector<char>(8192, 'a');
  InProcessMeeting meeting{1, 1 << 20};
};

TEST_CASE("A member without memory for its chunk throws, and then nobody waits for it") {
  const auto exchange = std::make_shared<Exchange>();
  char* const m = exchange->memory.data();
  exchange->meeting.Arrive(0, {}, [&](const std::vector<MemberBuffers>&) {
    InProcessPlan plan;
    plan.AddMoves({{m, m + 4096}, {m + 4096, m}}, 4096);
    return plan;
  });
  bool has_thrown = false, is_last = false;
  has_no_memory = true;
  try {
    exchange->meeting.Work(0, &is_last);
  } catch (const std::bad_alloc&) {
    has_thrown = true;
  }
  has_no_memory = false;
  CHECK(has_thrown);
  CHECK_FALSE(exchange->meeting.done());
  const auto has_stopped = std::make_shared<std::atomic<bool>>(false);
  // Detached: it would spin for ever.
  std::thread([exchange, has_stopped] {
    exchange->meeting.Stop();
    *has_stopped = true;
  }).detach();
  const auto until = std::chrono::steady_clock::now() + 10s;
  while (!*has_stopped && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(1ms);
  CHECK(*has_stopped);
}

}  // namespace
}  // namespace xla_shmem::testing
