#include "xla_patch/runtime/runtime.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "tests/shm/process_group.h"
#include "tests/shm/test_heap.h"

namespace xla_shmem {
namespace {

// A process has one Runtime, so each test has a process of its own, which ends with its exit handlers.
TEST_CASE("A process whose heap is too small for its devices gets that error each time, and exits well") {
  const shm::JobKey key = testing::RandomJobKey();
  testing::ProcessGroup group(1);
  group.Start([&](int) -> std::string {
    constexpr int kDevices = 40;
    JobLayout layout;
    layout.process_reachable = {true};
    layout.segment_keys = {key};
    for (int device = 0; device < kDevices; ++device) {
      layout.process_of_pe.push_back(0);
      layout.device_of_pe.push_back(device);
    }
    if (!Runtime::Get().CreateSegment(key.Hex(), 0, 8 << 20, shm::Readers::kSiblings).ok()) exit(3);
    const Status first = Runtime::Get().Connect(layout, {});
    if (first.message().find("raise XLA_SHMEM_HEAP_SIZE") == std::string::npos) exit(4);
    if (Runtime::Get().Connect(layout, {}).message() != first.message()) exit(5);
    exit(0);
  });
  CHECK(group.Join(0) == "");
  CHECK(testing::SegmentsOf(key).empty());
}

}  // namespace
}  // namespace xla_shmem
