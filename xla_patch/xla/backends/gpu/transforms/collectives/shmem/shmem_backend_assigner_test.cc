#include "xla/backends/gpu/transforms/collectives/shmem/shmem_backend_assigner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "xla/backends/gpu/transforms/collectives/shmem/job_topology.h"
#include "xla/backends/gpu/transforms/collectives/shmem/test_modules.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/hlo/pass/hlo_pass_pipeline.h"
#include "xla/hlo/transforms/collectives/all_reduce_combiner.h"
#include "xla/service/gpu/backend_configs.pb.h"
#include "xla/service/hlo_verifier.h"

namespace xla::gpu {
namespace {

using ::testing::HasSubstr;

xla_shmem::Topology JobOf(int64_t devices, int64_t per_process, int64_t per_domain) {
  auto topology = UniformTopology(devices, per_process, per_domain);
  EXPECT_TRUE(topology.ok()) << topology.status();
  return *std::move(topology);
}

// A job whose transport reaches every device.
ShmemJob Job(int64_t devices, int64_t per_process, int64_t per_domain) {
  ShmemJob job;
  job.topology = JobOf(devices, per_process, per_domain);
  std::unordered_map<int64_t, int32_t> reach;
  for (const int64_t device : job.topology.device_ids()) {
    reach[device] = 0;
  }
  job.transport = xla_shmem::GpuTransport(std::move(reach));
  return job;
}

// Runs the pass between two runs of XLA's verifier.
bool RunAssigner(const ShmemJob& job, HloModule* module) {
  HloPassPipeline pipeline("test");
  pipeline.AddInvariantChecker<HloVerifier>(/*layout_sensitive=*/false, /*allow_mixed_precision=*/false);
  pipeline.AddPass<ShmemBackendAssigner>(job);
  const auto changed = pipeline.Run(module);
  EXPECT_TRUE(changed.ok()) << changed.status();
  return changed.ok() && *changed;
}

std::string Attribute(const HloModule& module, absl::string_view name, absl::string_view key) {
  return Find(module, name)->get_frontend_attribute(absl::StrCat("xla_shmem.", key)).value_or("");
}

std::string BackendOf(const HloModule& module, absl::string_view name = "c") {
  const auto config = Find(module, name)->backend_config<GpuBackendConfig>();
  EXPECT_TRUE(config.ok()) << config.status();
  return CollectiveBackendConfig::CollectiveBackend_Name(config->collective_backend_config().backend());
}

// What the pass says about instruction c, as "backend rule", or "backend rule; veto".
std::string Said(const HloModule& module, absl::string_view name = "c") {
  const std::string veto = Attribute(module, name, "veto");
  EXPECT_EQ(Attribute(module, name, "lowered"), BackendOf(module, name));
  EXPECT_FALSE(Attribute(module, name, "reason").empty());
  return absl::StrCat(Attribute(module, name, "backend"), " ", Attribute(module, name, "rule"),
                      veto.empty() ? "" : absl::StrCat("; ", veto));
}

std::unique_ptr<HloModule> AllReduceOf(absl::string_view shape, absl::string_view groups = "{{0,1,2,3,4,5,6,7}}") {
  const std::string type(shape.substr(0, shape.find('[')));
  return Parse(
      absl::StrCat("HloModule m\nf { a = ", type, "[] parameter(0)  b = ", type, "[] parameter(1)  ROOT r = ", type,
                   "[] add(a, b) }\nENTRY main {\n  p = ", shape, " parameter(0)\n  ROOT c = ", shape,
                   " all-reduce(p), channel_id=1, use_global_device_ids=true, to_apply=f, replica_groups=", groups,
                   "\n}"),
      1, 8);
}

std::unique_ptr<HloModule> PermuteOf(absl::string_view shape, absl::string_view pairs = "{{0,1},{1,0}}") {
  return Parse(absl::StrCat("HloModule m\nENTRY main {\n  p = ", shape, " parameter(0)\n  ROOT c = ", shape,
                            " collective-permute(p), channel_id=1, source_target_pairs=", pairs, "\n}"),
               1, 8);
}

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
  EXPECT_EQ(Decided(Job(8, 1, 0), AllReduceOf("f8e5m2[8]")), "NVSHMEM single-device; no SHMEM all-reduce for f8e5m2");
  EXPECT_EQ(Decided(Job(8, 1, 0), PermuteOf("f8e5m2[8]")), "NVSHMEM single-device");
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
  EXPECT_EQ(Said(*module), "NVSHMEM single-device; the reduction is not a plain sum, prod, min or max");
}

TEST(ShmemBackendAssignerTest, AGroupLargerThanTheTransportTakesIsAVeto) {
  ShmemJob job = Job(8, 1, 0);
  job.transport.max_reduced_group = 4;
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

TEST(ShmemBackendAssignerTest, TheRestOfTheBackendConfigIsKept) {
  const auto module = AllReduceOf("f32[8]");
  GpuBackendConfig config;
  config.mutable_collective_backend_config()->set_is_pipelined(true);
  config.set_force_earliest_schedule(true);
  ASSERT_TRUE(Find(*module, "c")->set_backend_config(config).ok());
  EXPECT_TRUE(RunAssigner(Job(8, 1, 0), module.get()));
  const auto written = Find(*module, "c")->backend_config<GpuBackendConfig>();
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(BackendOf(*module), "NVSHMEM");
  EXPECT_TRUE(written->collective_backend_config().is_pipelined());
  EXPECT_TRUE(written->force_earliest_schedule());
}

TEST(ShmemBackendAssignerTest, ADefaultDecisionLeavesTheBackendConfigAlone) {
  const auto module = AllReduceOf("f32[4194304]");
  EXPECT_TRUE(RunAssigner(Job(8, 1, 0), module.get()));
  EXPECT_FALSE(Find(*module, "c")->has_backend_config());
}

TEST(ShmemBackendAssignerTest, ABackendConfigOfSomebodyElseIsAnError) {
  const auto module = AllReduceOf("f32[8]");
  Find(*module, "c")->set_raw_backend_config_string("not JSON");
  ShmemBackendAssigner pass(Job(8, 1, 0));
  EXPECT_FALSE(pass.Run(module.get()).ok());
}

TEST(ShmemBackendAssignerTest, ASecondRunChangesNothing) {
  const auto module = AllReduceOf("f32[8]");
  EXPECT_TRUE(RunAssigner(Job(8, 1, 0), module.get()));
  const std::string before = module->ToString();
  EXPECT_FALSE(RunAssigner(Job(8, 1, 0), module.get()));
  EXPECT_EQ(module->ToString(), before);
}

TEST(ShmemBackendAssignerTest, OtherRulesTakeTheBackendBack) {
  const auto module = AllReduceOf("f32[8]");
  RunAssigner(Job(8, 1, 0), module.get());
  ShmemJob stricter = Job(8, 1, 0);
  stricter.rules.threshold = 32;
  EXPECT_TRUE(RunAssigner(stricter, module.get()));
  EXPECT_EQ(Said(*module), "DEFAULT size");
}

TEST(ShmemBackendAssignerTest, AttributesOfOthersAreKeptAndStaleOwnOnesAreNot) {
  const auto module = AllReduceOf("f32[8]");
  Find(*module, "c")->set_frontend_attribute("mine", "kept");
  Find(*module, "c")->set_frontend_attribute("xla_shmem.veto", "stale");
  EXPECT_TRUE(RunAssigner(Job(8, 1, 0), module.get()));
  EXPECT_EQ(Find(*module, "c")->get_frontend_attribute("mine"), "kept");
  EXPECT_EQ(Said(*module), "NVSHMEM single-device");
}

TEST(ShmemBackendAssignerTest, AttributesDescribeTheParticipants) {
  const auto reduced = AllReduceOf("f32[8]", "[2,4]<=[8]");
  RunAssigner(Job(8, 1, 0), reduced.get());
  EXPECT_EQ(Attribute(*reduced, "c", "groups"), "2x4");
  EXPECT_EQ(Attribute(*reduced, "c", "reduction"), "sum");
  const auto permuted = PermuteOf("f32[8]", "{{0,1},{1,2},{5,6}}");
  RunAssigner(Job(8, 1, 0), permuted.get());
  EXPECT_EQ(Attribute(*permuted, "c", "pairs"), "3");
  EXPECT_EQ(Attribute(*permuted, "c", "groups"), "2x3");
}

TEST(ShmemBackendAssignerTest, TheReasonHasTheNumbersInIt) {
  const auto module = AllReduceOf("f32[16777216]");
  RunAssigner(Job(8, 1, 0), module.get());
  EXPECT_EQ(Attribute(*module, "c", "reason"), "all-reduce of 64.0 MiB ≥ threshold 16.0 MiB");
}

TEST(ShmemBackendAssignerTest, StartAndDoneSayTheSame) {
  const auto module = ParseEntry(R"(
    s = f32[4] all-reduce-start(p), channel_id=1, to_apply=sum, replica_groups={}
    a = f32[4] add(q, q)
    d = f32[4] all-reduce-done(s)
    ps = (f32[4], f32[4]) collective-permute-start(a), channel_id=2, source_target_pairs={{0,1}}
    pd = f32[4] collective-permute-done(ps)
    ROOT r = f32[4] add(d, pd))");
  EXPECT_TRUE(RunAssigner(Job(8, 1, 0), module.get()));
  EXPECT_EQ(Said(*module, "s"), "NVSHMEM single-device");
  EXPECT_EQ(Said(*module, "ps"), "NVSHMEM single-device");
  for (const auto& [start, done] : {std::pair("s", "d"), std::pair("ps", "pd")}) {
    EXPECT_EQ(Attribute(*module, start, "reason"), Attribute(*module, done, "reason"));
    EXPECT_FALSE(Find(*module, done)->has_backend_config());
  }
}

TEST(ShmemBackendAssignerTest, AWrappedCollectiveAndItsAsyncPairSayTheSame) {
  const auto module = Parse(absl::StrCat("HloModule m", kReductions, R"(
    wrapped { x = f32[4] parameter(0)  ROOT c = f32[4] all-reduce(x), channel_id=1, to_apply=sum, replica_groups={} }
    ENTRY main {
      p = f32[4] parameter(0)
      s = ((f32[4]), f32[4]) async-start(p), calls=wrapped
      ROOT d = f32[4] async-done(s)
    })"),
                            1, 8);
  EXPECT_TRUE(RunAssigner(Job(8, 1, 0), module.get()));
  EXPECT_EQ(Said(*module), "NVSHMEM single-device");
  EXPECT_EQ(Attribute(*module, "s", "rule"), "single-device");
  EXPECT_EQ(Attribute(*module, "d", "rule"), "single-device");
}

TEST(ShmemBackendAssignerTest, CollectivesInLoopsAndBranchesAreAssigned) {
  const auto module = Parse(R"(HloModule m
    body { x = (s32[], f32[4]) parameter(0)  i = s32[] get-tuple-element(x), index=0  v = f32[4] get-tuple-element(x), index=1
           in_loop = f32[4] collective-permute(v), channel_id=1, source_target_pairs={{0,1}}  ROOT t = (s32[], f32[4]) tuple(i, in_loop) }
    cond { x = (s32[], f32[4]) parameter(0)  i = s32[] get-tuple-element(x), index=0  n = s32[] constant(3)
           ROOT lt = pred[] compare(i, n), direction=LT }
    left { v = f32[4] parameter(0)  ROOT in_branch = f32[4] collective-permute(v), channel_id=2, source_target_pairs={{0,1}} }
    right { v = f32[4] parameter(0)  ROOT n = f32[4] negate(v) }
    ENTRY main {
      i = s32[] parameter(0)
      p = f32[4] parameter(1)
      t = (s32[], f32[4]) tuple(i, p)
      w = (s32[], f32[4]) while(t), condition=cond, body=body
      v = f32[4] get-tuple-element(w), index=1
      ROOT r = f32[4] conditional(i, v, v), branch_computations={left, right}
    })",
                            1, 2);
  EXPECT_TRUE(RunAssigner(Job(2, 1, 0), module.get()));
  EXPECT_EQ(Said(*module, "in_loop"), "NVSHMEM single-device");
  EXPECT_EQ(Said(*module, "in_branch"), "NVSHMEM single-device");
}

TEST(ShmemBackendAssignerTest, OtherInstructionsAreUntouched) {
  const auto module = ParseEntry(R"(
    a = f32[4] add(p, q), metadata={op_name="mine"}
    c = f32[4] collective-permute(a), channel_id=1, source_target_pairs={{0,1}}
    ROOT r = f32[4] multiply(c, a))");
  EXPECT_TRUE(RunAssigner(Job(8, 1, 0), module.get()));
  for (const HloInstruction* instruction : module->entry_computation()->instructions()) {
    EXPECT_EQ(instruction->has_frontend_attributes(), instruction->name() == "c") << instruction->ToString();
    EXPECT_EQ(instruction->has_backend_config(), instruction->name() == "c") << instruction->ToString();
  }
}

TEST(ShmemBackendAssignerTest, WhatIsWrittenSurvivesPrintingAndParsing) {
  const auto module = AllReduceOf("f32[4194304]");
  RunAssigner(Job(8, 1, 0), module.get());
  const auto parsed = Parse(module->ToString(), 1, 8);
  ASSERT_NE(parsed, nullptr);
  EXPECT_EQ(Attribute(*parsed, "c", "reason"), Attribute(*module, "c", "reason"));
  EXPECT_FALSE(RunAssigner(Job(8, 1, 0), parsed.get()));
}

TEST(ShmemBackendAssignerTest, OtherExecutionThreadsAreLeftAlone) {
  const auto module = AllReduceOf("f32[8]");
  ShmemBackendAssigner pass(Job(8, 1, 0));
  const auto elsewhere = pass.Run(module.get(), {"another_thread"});
  ASSERT_TRUE(elsewhere.ok()) << elsewhere.status();
  EXPECT_FALSE(*elsewhere);
  const auto here = pass.Run(module.get(), {"main"});
  ASSERT_TRUE(here.ok()) << here.status();
  EXPECT_TRUE(*here);
}

TEST(ShmemBackendAssignerTest, TheSameJobDecidesTheSameOnEveryRank) {
  const auto first = AllReduceOf("f32[8]", "[4,2]<=[2,4]T(1,0)");
  const auto second = AllReduceOf("f32[8]", "[4,2]<=[2,4]T(1,0)");
  RunAssigner(Job(8, 4, 8), first.get());
  RunAssigner(Job(8, 4, 8), second.get());
  EXPECT_EQ(first->ToString(), second->ToString());
}

}  // namespace
}  // namespace xla::gpu
