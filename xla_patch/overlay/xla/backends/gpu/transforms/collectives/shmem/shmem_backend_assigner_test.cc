#include "xla/backends/gpu/transforms/collectives/shmem/shmem_backend_assigner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "xla/backends/gpu/transforms/collectives/shmem/test_modules.h"
#include "xla/backends/gpu/transforms/collectives/shmem/test_runs.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/hlo/ir/hlo_opcode.h"
#include "xla/hlo/pass/hlo_pass_pipeline.h"
#include "xla/hlo/transforms/collectives/all_reduce_combiner.h"

namespace xla::gpu {
namespace {

using ::testing::HasSubstr;

std::string Decided(const ShmemJob& job, std::unique_ptr<HloModule> module) {
  RunAssigner(job, module.get());
  return Said(*module);
}

TEST(ShmemBackendAssignerTest, OneDevicePerProcessUsesNvshmem) {
  EXPECT_EQ(Decided(Job(8, 1, 0), AllReduceOf("f32[1024]")), "NVSHMEM single-device");
  EXPECT_EQ(Decided(Job(8, 1, 0), PermuteOf("f32[1024]")), "NVSHMEM single-device");
}

TEST(ShmemBackendAssignerTest, AnAllReduceOfTheThresholdStaysDefault) {
  EXPECT_EQ(Decided(Job(8, 1, 0), AllReduceOf("f32[4194304]")), "DEFAULT size");
}

TEST(ShmemBackendAssignerTest, AnAllReduceOneElementBelowTheThresholdUsesNvshmem) {
  EXPECT_EQ(Decided(Job(8, 1, 0), AllReduceOf("f32[4194303]")), "NVSHMEM single-device");
}

TEST(ShmemBackendAssignerTest, TheThresholdIsAnOption) {
  ShmemJob job = Job(8, 1, 0);
  job.rules.threshold = 4096;
  EXPECT_EQ(Decided(job, AllReduceOf("f32[1024]")), "DEFAULT size");
  EXPECT_EQ(Decided(job, AllReduceOf("f32[1023]")), "NVSHMEM single-device");
}

TEST(ShmemBackendAssignerTest, APermuteHasNoSizeLimit) {
  EXPECT_EQ(Decided(Job(8, 1, 0), PermuteOf("f32[1073741824]")), "NVSHMEM single-device");
}

TEST(ShmemBackendAssignerTest, GroupsWithinAProcessUseNvshmem) {
  EXPECT_EQ(Decided(Job(8, 4, 0), AllReduceOf("f32[8]", "{{0,1,2,3},{4,5,6,7}}")), "NVSHMEM single-partition");
  EXPECT_EQ(Decided(Job(8, 4, 0), PermuteOf("f32[8]", "{{0,3},{5,4}}")), "NVSHMEM single-partition");
}

TEST(ShmemBackendAssignerTest, GroupsAcrossProcessesOfOneNvlinkDomainUseNvshmem) {
  EXPECT_EQ(Decided(Job(8, 4, 8), AllReduceOf("f32[8]", "[4,2]<=[2,4]T(1,0)")), "NVSHMEM nvlink-domain");
  EXPECT_EQ(Decided(Job(8, 4, 8), PermuteOf("f32[8]", "{{3,4}}")), "NVSHMEM nvlink-domain");
}

TEST(ShmemBackendAssignerTest, GroupsAcrossProcessesAndDomainsStayDefault) {
  EXPECT_EQ(Decided(Job(8, 4, 4), AllReduceOf("f32[8]", "[4,2]<=[2,4]T(1,0)")), "DEFAULT no-placement");
  EXPECT_EQ(Decided(Job(8, 4, 4), PermuteOf("f32[8]", "{{3,4}}")), "DEFAULT no-placement");
}

TEST(ShmemBackendAssignerTest, PlacementIsLookedAtBeforeSize) {
  EXPECT_EQ(Decided(Job(8, 4, 4), AllReduceOf("f32[4194304]")), "DEFAULT no-placement");
}

TEST(ShmemBackendAssignerTest, ProfileDomainAcceptsGroupsWithinADomainEach) {
  ShmemJob job = Job(8, 1, 4);
  job.rules.profile = xla_shmem::Profile::kDomain;
  EXPECT_EQ(Decided(job, AllReduceOf("f32[8]", "[2,4]<=[8]")), "NVSHMEM group-in-domain");
}

TEST(ShmemBackendAssignerTest, ProfileDomainRefusesAGroupAcrossDomains) {
  ShmemJob job = Job(8, 1, 4);
  job.rules.profile = xla_shmem::Profile::kDomain;
  EXPECT_EQ(Decided(job, AllReduceOf("f32[8]")), "DEFAULT group-across-domains");
}

TEST(ShmemBackendAssignerTest, GroupsThatMakeNoSenseStayDefault) {
  auto module = AllReduceOf("f32[8]");
  PlaceOn({{0}, {1}, {2}, {3}}, module.get());
  EXPECT_EQ(Decided(Job(8, 1, 0), std::move(module)), "DEFAULT unresolved-groups");
}

TEST(ShmemBackendAssignerTest, ADeviceOutsideOfTheJobStaysDefault) {
  auto module = AllReduceOf("f32[8]");
  PlaceOn({{0}, {1}, {2}, {3}, {4}, {5}, {6}, {9}}, module.get());
  EXPECT_EQ(Decided(Job(8, 1, 0), std::move(module)), "DEFAULT unknown-device");
}

TEST(ShmemBackendAssignerTest, TheDeviceAssignmentSaysWhoIsInAProcess) {
  auto module = AllReduceOf("f32[8]", "{{0,4},{1,5},{2,6},{3,7}}");
  PlaceOn({{0}, {2}, {4}, {6}, {1}, {3}, {5}, {7}}, module.get());
  EXPECT_EQ(Decided(Job(8, 2, 0), std::move(module)), "NVSHMEM single-partition");
}

TEST(ShmemBackendAssignerTest, OtherCollectivesAreNotConsidered) {
  const auto module = ParseEntry(R"(
    ag = f32[32] all-gather(p), channel_id=1, use_global_device_ids=true, dimensions={0}, replica_groups=[1,8]<=[8]
    rs = f32[4] reduce-scatter(ag), channel_id=2, use_global_device_ids=true, dimensions={0}, to_apply=sum, replica_groups=[1,8]<=[8]
    aa = f32[32] all-to-all(ag), channel_id=3, dimensions={0}, replica_groups={{0,1,2,3,4,5,6,7}}
    cb = f32[4] collective-broadcast(rs), channel_id=4, replica_groups={{0,1,2,3,4,5,6,7}}
    ROOT t = (f32[32], f32[4]) tuple(aa, cb))");
  EXPECT_FALSE(RunAssigner(Job(8, 1, 0), module.get()));
}

TEST(ShmemBackendAssignerTest, TheElementsOfACombinedAllReduceCountTogether) {
  const auto combined = [](absl::string_view second) {
    return Parse(absl::StrCat("HloModule m", kReductions, "ENTRY main {\n  p = f32[3145728] parameter(0)\n  q = ",
                              second, " parameter(1)\n  ROOT c = (f32[3145728], ", second,
                              ") all-reduce(p, q), channel_id=1, to_apply=sum, replica_groups={}\n}"),
                 1, 8);
  };
  EXPECT_EQ(Decided(Job(8, 1, 0), combined("f32[1048575]")), "NVSHMEM single-device");
  EXPECT_EQ(Decided(Job(8, 1, 0), combined("f32[1048576]")), "DEFAULT size");
}

TEST(ShmemBackendAssignerTest, WhatXlasCombinerPutsTogetherIsDecidedAsOne) {
  const auto module = Parse(absl::StrCat("HloModule m", kReductions, R"(ENTRY main {
    p = f32[3000000] parameter(0)
    q = f32[3000000] parameter(1)
    x = f32[3000000] all-reduce(p), channel_id=1, to_apply=sum, replica_groups={}
    y = f32[3000000] all-reduce(q), channel_id=2, to_apply=sum, replica_groups={}
    ROOT t = (f32[3000000], f32[3000000]) tuple(x, y)
  })"),
                            1, 8);
  HloPassPipeline pipeline("combine, then assign");
  pipeline.AddPass<AllReduceCombiner>(/*combine_threshold_in_bytes=*/int64_t{1} << 30, /*combine_threshold_count=*/256);
  pipeline.AddPass<ShmemBackendAssigner>(Job(8, 1, 0));
  const auto changed = pipeline.Run(module.get());
  ASSERT_TRUE(changed.ok()) << changed.status();
  int all_reduces = 0;
  for (const HloInstruction* instruction : module->entry_computation()->instructions()) {
    if (instruction->opcode() == HloOpcode::kAllReduce) {
      ++all_reduces;
      EXPECT_EQ(Said(*module, instruction->name()), "DEFAULT size");
      EXPECT_THAT(Attribute(*module, instruction->name(), "reason"), HasSubstr("22.9 MiB"));
    }
  }
  EXPECT_EQ(all_reduces, 1);
}

TEST(ShmemBackendAssignerTest, AMissingTransportIsAVetoAndNotADecision) {
  ShmemJob job = Job(8, 1, 0);
  job.transport = xla_shmem::Transport();
  job.transport.unavailable_reason = "libnvshmem_host.so.3 not found";
  EXPECT_EQ(Decided(job, AllReduceOf("f32[8]")), "NVSHMEM single-device; libnvshmem_host.so.3 not found");
}

TEST(ShmemBackendAssignerTest, ATypeThatCannotBeReducedIsAVeto) {
  EXPECT_EQ(Decided(Job(8, 1, 0), AllReduceOf("f8e8m0fnu[8]")),
            "NVSHMEM single-device; no SHMEM all-reduce for f8e8m0fnu");
  EXPECT_EQ(Decided(Job(8, 1, 0), AllReduceOf("f8e5m2[8]")), "NVSHMEM single-device");
  EXPECT_EQ(Decided(Job(8, 1, 0), PermuteOf("f8e8m0fnu[8]")), "NVSHMEM single-device");
}

TEST(ShmemBackendAssignerTest, TypesOfLessThanAByteAreAVeto) {
  EXPECT_EQ(Decided(Job(8, 1, 0), PermuteOf("s4[8]")), "NVSHMEM single-device; s4 has no whole-byte elements");
}

TEST(ShmemBackendAssignerTest, AReductionThatIsNotPlainIsAVeto) {
  const auto module = Parse(R"(HloModule m
    f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] power(a, b) }
    ENTRY main { p = f32[8] parameter(0)  ROOT c = f32[8] all-reduce(p), channel_id=1, to_apply=f, replica_groups={} }
  )",
                            1, 8);
  RunAssigner(Job(8, 1, 0), module.get());
  EXPECT_EQ(Said(*module), "NVSHMEM single-device; the reduction is not a plain sum, prod, min, max, and, or or xor");
}

TEST(ShmemBackendAssignerTest, AGroupLargerThanTheTransportTakesIsAVeto) {
  ShmemJob job = Job(8, 1, 0);
  job.transport.max_group = 4;
  EXPECT_THAT(Decided(job, AllReduceOf("f32[8]")), HasSubstr("a replica group of 8 devices, at most 4"));
  EXPECT_EQ(Decided(job, AllReduceOf("f32[8]", "[2,4]<=[8]")), "NVSHMEM single-device");
}

TEST(ShmemBackendAssignerTest, APeerOutOfReachIsAVeto) {
  ShmemJob job = Job(8, 1, 0);
  (*job.transport.reach)[7] = 1;
  EXPECT_THAT(Decided(job, PermuteOf("f32[8]", "{{6,7}}")),
              HasSubstr("device 7 (PE 7, host 7) is out of reach of device 6"));
  EXPECT_EQ(Decided(job, PermuteOf("f32[8]", "{{5,6},{7,7}}")), "NVSHMEM single-device");
}

TEST(ShmemBackendAssignerTest, AFormThatCannotBeCarriedIsAVeto) {
  EXPECT_EQ(Decided(Job(8, 1, 0), PermuteOf("f32[8]{0:S(5)}")), "NVSHMEM single-device; it works on host memory");
}

}  // namespace
}  // namespace xla::gpu
