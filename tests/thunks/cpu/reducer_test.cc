#include "xla_patch/thunks/cpu/reducer.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "tests/thunks/cpu/job.h"
#include "xla_patch/thunks/cpu/message_sender.h"

namespace xla_shmem::testing {
namespace {

constexpr MessageKey kKey{5, 1};

TEST_CASE("A large reduction is done in parts, between which other operations have their turn") {
  JobOptions options;
  options.single_copy = shm::SingleCopy::kAlways;
  Job job(options);
  constexpr size_t kElements = (5 << 20) / sizeof(int32_t);
  std::vector<int32_t> sent(kElements, 2), own(kElements, 3), result(kElements, -1);
  const auto spans = [](std::vector<int32_t>& values) {
    Spans memory;
    memory.Add(reinterpret_cast<char*>(values.data()), values.size() * sizeof(int32_t));
    return memory;
  };
  MessageSender sender(1, kKey, spans(sent), /*overwritten=*/false);
  Reducer reducer(ReductionKind::kSum, {ElementType::kS32}, 1, spans(own), spans(result));
  reducer.contributions().push_back({MessageReceiver(0, kKey, spans(result)), {}});
  const size_t total = reducer.total();
  CHECK_FALSE(reducer.Advance(job.context(1), total, /*in_place=*/false));
  CHECK(sender.Advance(job.context(0), total));
  int parts = 0;
  for (size_t before = 0; !reducer.done(); before = reducer.reduced(), ++parts) {
    REQUIRE(reducer.Advance(job.context(1), total, /*in_place=*/false));
    CHECK(reducer.reduced() > before);
    CHECK(reducer.reduced() <= before + (2 << 20));
  }
  CHECK(parts == 3);
  CHECK(result == std::vector<int32_t>(kElements, 5));
}

}  // namespace
}  // namespace xla_shmem::testing
