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
using ::xla_shmem::gpu::WorldMember;

constexpr size_t kHeapStep = size_t{512} << 20;

WorldMember Member(const std::string& host, int imex_channels = 1, size_t free_bytes = kHeapStep,
                   const std::string& bus_id = "") {
  static int gpus = 0;
  return {0, host, bus_id.empty() ? std::to_string(++gpus) : bus_id, imex_channels, free_bytes};
}

// A heap of 8 MiB, which takes one step.
EnvironmentOptions SmallHeap() {
  EnvironmentOptions options;
  options.heap_bytes = int64_t{8} << 20;
  return options;
}

std::string WhyNot(const std::vector<WorldMember>& members, bool own_heap_steps = false) {
  std::vector<std::string> texts;
  for (const WorldMember& member : members) texts.push_back(ToText(member));
  return CheckMembers(texts, SmallHeap(), own_heap_steps).message();
}

TEST(JobAnnouncementTest, IsReadAsItWasWritten) {
  const auto read = MembersOf({ToText(Member("a")), ToText({0, "boot/host", "0000:1A:00.0", 7, 123456789012})});
  ASSERT_TRUE(read.ok()) << read.message();
  const WorldMember& member = (*read)[1];
  EXPECT_EQ(member.process, 1);
  EXPECT_EQ(member.host, "boot/host");
  EXPECT_EQ(member.bus_id, "0000:1A:00.0");
  EXPECT_EQ(member.imex_channels, 7);
  EXPECT_EQ(member.free_bytes, 123456789012);
}

TEST(JobAnnouncementTest, TextOfAnotherReleaseIsRefusedWithItsProcess) {
  EXPECT_THAT(std::string(CheckMembers({ToText(Member("a")), "boot/host bus 1"}, SmallHeap(), false).message()),
              StartsWith("process 1 announced 'boot/host bus 1'"));
}

TEST(JobAnnouncementTest, ProcessesOfOneHostCanStart) {
  EXPECT_EQ(WhyNot({Member("a", /*imex_channels=*/0), Member("a", /*imex_channels=*/0)}), "");
}

TEST(JobAnnouncementTest, SeveralHostsWithoutImexCannotStart) {
  EXPECT_EQ(WhyNot({Member("a"), Member("b")}), "");
  EXPECT_THAT(WhyNot({Member("a"), Member("b", /*imex_channels=*/0)}), StartsWith("process 1 sees no channel in"));
}

TEST(JobAnnouncementTest, TooLittleMemoryIsRefusedBeforeAnyStart) {
  EXPECT_THAT(WhyNot({Member("a"), Member("a", 1, kHeapStep - 1)}),
              HasSubstr("process 1 has 536870911 bytes of free GPU memory, NVSHMEM takes 536870912"));
  EXPECT_EQ(WhyNot({Member("a"), Member("a", 1, kHeapStep - 1)}, /*own_heap_steps=*/true), "");
}

TEST(JobAnnouncementTest, ProcessesOnOneGpuNeedMemoryForBoth) {
  const WorldMember member = Member("a", 1, kHeapStep, "0000:01:00.0");
  EXPECT_THAT(WhyNot({member, member}), HasSubstr("for each of 2 processes on that GPU"));
}

TEST(JobAnnouncementTest, MultiNodeNvlinkIsOnlyOffOnOneHost) {
  EXPECT_THAT(NvshmemSettings(SmallHeap(), {Member("a"), Member("a")}), Contains(Key("NVSHMEM_DISABLE_MNNVL")));
  EXPECT_THAT(NvshmemSettings(SmallHeap(), {Member("a"), Member("b")}), Not(Contains(Key("NVSHMEM_DISABLE_MNNVL"))));
}

TEST(JobAnnouncementTest, ReductionsInTheSwitchTakeMoreSymmetricMemory) {
  EnvironmentOptions multimem;
  multimem.multimem = true;
  const auto bytes = [](const EnvironmentOptions& options) {
    return std::stoull(NvshmemSettings(options, {Member("a"), Member("a")}).at("NVSHMEM_SYMMETRIC_SIZE"));
  };
  EXPECT_GE(bytes(multimem), bytes(EnvironmentOptions()) + (size_t{8} << 20));
  EXPECT_THAT(NvshmemSettings(multimem, {Member("a"), Member("a")}), Not(Contains(Key("NVSHMEM_DISABLE_NVLS"))));
}

}  // namespace
}  // namespace xla::gpu
