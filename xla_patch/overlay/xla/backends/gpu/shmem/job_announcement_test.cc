#include "xla/backends/gpu/shmem/job_announcement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "xla_patch/options/environment.h"

namespace xla::gpu {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using ::testing::StartsWith;
using ::xla_shmem::EnvironmentOptions;

constexpr size_t kHeapStep = size_t{512} << 20;

std::string TextOf(const std::string& host, int imex_channels = 1, size_t free_bytes = kHeapStep,
                   const std::string& agreement = "profile=upstream", const std::string& bus_id = "") {
  static int gpus = 0;
  return ToText({{0, host, bus_id.empty() ? std::to_string(++gpus) : bus_id, imex_channels, free_bytes}, agreement});
}

// A heap of 8 MiB, which takes one step.
EnvironmentOptions SmallHeap() {
  EnvironmentOptions options;
  options.heap_bytes = int64_t{8} << 20;
  return options;
}

std::string WhyNot(const std::vector<std::string>& texts, bool own_heap_steps = false) {
  return CheckAnnouncements(texts, SmallHeap(), own_heap_steps).message();
}

TEST(JobAnnouncementTest, IsReadAsItWasWritten) {
  const std::string text = ToText({{0, "boot/host", "0000:1A:00.0", 7, 123456789012}, "a=1 NVSHMEM_X=a\nb"});
  const auto read = AnnouncementOf(3, text);
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_EQ(read->member.process, 3);
  EXPECT_EQ(read->member.host, "boot/host");
  EXPECT_EQ(read->member.bus_id, "0000:1A:00.0");
  EXPECT_EQ(read->member.imex_channels, 7);
  EXPECT_EQ(read->member.free_bytes, 123456789012);
  EXPECT_EQ(read->agreement, "a=1 NVSHMEM_X=a\nb");
}

TEST(JobAnnouncementTest, TextOfAnotherReleaseIsRefusedWithItsProcess) {
  EXPECT_THAT(WhyNot({TextOf("a"), "profile=upstream"}), StartsWith("process 1 announced 'profile=upstream'"));
  EXPECT_THAT(WhyNot({TextOf("a"), "boot/host bus 1\nprofile=upstream"}), StartsWith("process 1 announced"));
}

TEST(JobAnnouncementTest, ProcessesThatAgreeOnOneHostCanStart) {
  EXPECT_EQ(WhyNot({TextOf("a", /*imex_channels=*/0), TextOf("a", /*imex_channels=*/0)}), "");
}

TEST(JobAnnouncementTest, OtherOptionsAreRefusedWithBoth) {
  EXPECT_EQ(WhyNot({TextOf("a"), TextOf("a", 1, kHeapStep, "profile=domain")}),
            "process 1 has profile=domain and process 0 has profile=upstream: they must be equal");
}

TEST(JobAnnouncementTest, SeveralHostsWithoutImexCannotStart) {
  EXPECT_EQ(WhyNot({TextOf("a"), TextOf("b")}), "");
  EXPECT_THAT(WhyNot({TextOf("a"), TextOf("b", /*imex_channels=*/0)}), StartsWith("process 1 sees no channel in"));
}

TEST(JobAnnouncementTest, TooLittleMemoryIsRefusedBeforeAnyStart) {
  EXPECT_THAT(WhyNot({TextOf("a"), TextOf("a", 1, kHeapStep - 1)}),
              HasSubstr("process 1 has 536870911 bytes of free GPU memory, NVSHMEM takes 536870912"));
  EXPECT_EQ(WhyNot({TextOf("a"), TextOf("a", 1, kHeapStep - 1)}, /*own_heap_steps=*/true), "");
}

TEST(JobAnnouncementTest, ProcessesOnOneGpuNeedMemoryForBoth) {
  const std::string text = TextOf("a", 1, kHeapStep, "profile=upstream", "0000:01:00.0");
  EXPECT_THAT(WhyNot({text, text}), HasSubstr("for each of 2 processes on that GPU"));
}

TEST(JobAnnouncementTest, MultiNodeNvlinkIsOnlyOffOnOneHost) {
  EXPECT_THAT(NvshmemSettings(SmallHeap(), 2, /*hosts=*/1), Contains(Key("NVSHMEM_DISABLE_MNNVL")));
  EXPECT_THAT(NvshmemSettings(SmallHeap(), 2, /*hosts=*/2), Not(Contains(Key("NVSHMEM_DISABLE_MNNVL"))));
}

TEST(JobAnnouncementTest, ReductionsInTheSwitchTakeMoreSymmetricMemory) {
  EnvironmentOptions multimem;
  multimem.multimem = true;
  const auto bytes = [](const EnvironmentOptions& options) {
    return std::stoull(NvshmemSettings(options, 2, 1).at("NVSHMEM_SYMMETRIC_SIZE"));
  };
  EXPECT_GE(bytes(multimem), bytes(EnvironmentOptions()) + (size_t{8} << 20));
  EXPECT_THAT(NvshmemSettings(multimem, 2, 1), Not(Contains(Key("NVSHMEM_DISABLE_NVLS"))));
}

}  // namespace
}  // namespace xla::gpu
