#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "xla/backends/gpu/transforms/collectives/shmem/shmem_backend_assigner.h"
#include "xla/backends/gpu/transforms/collectives/shmem/test_modules.h"
#include "xla/backends/gpu/transforms/collectives/shmem/test_runs.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/service/gpu/backend_configs.pb.h"

namespace xla::gpu {
namespace {

TEST(ShmemBackendAssignerWritesTest, TheRestOfTheBackendConfigIsKept) {
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

// XLA annotates collectives for kernels of its own before the pass. It would emit such a kernel, and no thunk to
// replace.
TEST(ShmemBackendAssignerWritesTest, OnlyCollectivesOnNvshmemLoseTheKernelStrategy) {
  for (const auto& [shape, strategy] :
       {std::pair{"f32[8]", CollectiveBackendConfig::KERNEL_STRATEGY_DEFAULT},
        std::pair{"f32[4194304]", CollectiveBackendConfig::KERNEL_STRATEGY_TRITON_ONE_SHOT}}) {
    const auto module = AllReduceOf(shape);
    GpuBackendConfig config;
    config.mutable_collective_backend_config()->set_kernel_strategy(
        CollectiveBackendConfig::KERNEL_STRATEGY_TRITON_ONE_SHOT);
    ASSERT_TRUE(Find(*module, "c")->set_backend_config(config).ok());
    EXPECT_TRUE(RunAssigner(Job(8, 1, 0), module.get()));
    const auto written = Find(*module, "c")->backend_config<GpuBackendConfig>();
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_EQ(written->collective_backend_config().kernel_strategy(), strategy) << shape;
  }
}

// XLA 0.11.0 has no name for NVSHMEM's number.
TEST(ShmemBackendAssignerWritesTest, ABackendWithoutANameSurvivesAsText) {
  constexpr auto kNameless = static_cast<CollectiveBackendConfig::CollectiveBackend>(7);
  const auto module = AllReduceOf("f32[8]");
  GpuBackendConfig config;
  config.mutable_collective_backend_config()->set_backend(kNameless);
  ASSERT_TRUE(Find(*module, "c")->set_backend_config(config).ok());
  const auto read = Find(*module, "c")->backend_config<GpuBackendConfig>();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->collective_backend_config().backend(), kNameless);
}

TEST(ShmemBackendAssignerWritesTest, ADefaultDecisionLeavesTheBackendConfigAlone) {
  const auto module = AllReduceOf("f32[4194304]");
  EXPECT_TRUE(RunAssigner(Job(8, 1, 0), module.get()));
  EXPECT_FALSE(Find(*module, "c")->has_backend_config());
}

TEST(ShmemBackendAssignerWritesTest, ABackendConfigOfSomebodyElseIsAnError) {
  const auto module = AllReduceOf("f32[8]");
  Find(*module, "c")->set_raw_backend_config_string("not JSON");
  ShmemBackendAssigner pass(Job(8, 1, 0));
  EXPECT_FALSE(pass.Run(module.get()).ok());
}

TEST(ShmemBackendAssignerWritesTest, ASecondRunChangesNothing) {
  const auto module = AllReduceOf("f32[8]");
  EXPECT_TRUE(RunAssigner(Job(8, 1, 0), module.get()));
  const std::string before = module->ToString();
  EXPECT_FALSE(RunAssigner(Job(8, 1, 0), module.get()));
  EXPECT_EQ(module->ToString(), before);
}

TEST(ShmemBackendAssignerWritesTest, OtherRulesTakeTheBackendBack) {
  const auto module = AllReduceOf("f32[8]");
  RunAssigner(Job(8, 1, 0), module.get());
  ShmemJob stricter = Job(8, 1, 0);
  stricter.rules.threshold = 32;
  EXPECT_TRUE(RunAssigner(stricter, module.get()));
  EXPECT_EQ(Said(*module), "DEFAULT size");
}

TEST(ShmemBackendAssignerWritesTest, AttributesOfOthersAreKeptAndStaleOwnOnesAreNot) {
  const auto module = AllReduceOf("f32[8]");
  Find(*module, "c")->set_frontend_attribute("mine", "kept");
  Find(*module, "c")->set_frontend_attribute("xla_shmem.veto", "stale");
  EXPECT_TRUE(RunAssigner(Job(8, 1, 0), module.get()));
  EXPECT_EQ(Find(*module, "c")->get_frontend_attribute("mine"), "kept");
  EXPECT_EQ(Said(*module), "NVSHMEM single-device");
}

TEST(ShmemBackendAssignerWritesTest, AttributesDescribeTheParticipants) {
  const auto reduced = AllReduceOf("f32[8]", "[2,4]<=[8]");
  RunAssigner(Job(8, 1, 0), reduced.get());
  EXPECT_EQ(Attribute(*reduced, "c", "groups"), "2x4");
  EXPECT_EQ(Attribute(*reduced, "c", "reduction"), "sum");
  const auto permuted = PermuteOf("f32[8]", "{{0,1},{1,2},{5,6}}");
  RunAssigner(Job(8, 1, 0), permuted.get());
  EXPECT_EQ(Attribute(*permuted, "c", "pairs"), "3");
  EXPECT_EQ(Attribute(*permuted, "c", "groups"), "2x3");
}

TEST(ShmemBackendAssignerWritesTest, TheReasonHasTheNumbersInIt) {
  const auto module = AllReduceOf("f32[16777216]");
  RunAssigner(Job(8, 1, 0), module.get());
  EXPECT_EQ(Attribute(*module, "c", "reason"), "all-reduce of 64.0 MiB ≥ threshold 16.0 MiB");
}

TEST(ShmemBackendAssignerWritesTest, StartAndDoneSayTheSame) {
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

TEST(ShmemBackendAssignerWritesTest, AWrappedCollectiveAndItsAsyncPairSayTheSame) {
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

TEST(ShmemBackendAssignerWritesTest, CollectivesInLoopsAndBranchesAreAssigned) {
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

TEST(ShmemBackendAssignerWritesTest, OtherInstructionsAreUntouched) {
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

TEST(ShmemBackendAssignerWritesTest, WhatIsWrittenSurvivesPrintingAndParsing) {
  const auto module = AllReduceOf("f32[4194304]");
  RunAssigner(Job(8, 1, 0), module.get());
  const auto parsed = Parse(module->ToString(), 1, 8);
  ASSERT_NE(parsed, nullptr);
  EXPECT_EQ(Attribute(*parsed, "c", "reason"), Attribute(*module, "c", "reason"));
  EXPECT_FALSE(RunAssigner(Job(8, 1, 0), parsed.get()));
}

TEST(ShmemBackendAssignerWritesTest, OtherExecutionThreadsAreLeftAlone) {
  const auto module = AllReduceOf("f32[8]");
  ShmemBackendAssigner pass(Job(8, 1, 0));
  const auto elsewhere = pass.Run(module.get(), {"another_thread"});
  ASSERT_TRUE(elsewhere.ok()) << elsewhere.status();
  EXPECT_FALSE(*elsewhere);
  const auto here = pass.Run(module.get(), {"main"});
  ASSERT_TRUE(here.ok()) << here.status();
  EXPECT_TRUE(*here);
}

TEST(ShmemBackendAssignerWritesTest, TheSameJobDecidesTheSameOnEveryRank) {
  const auto first = AllReduceOf("f32[8]", "[4,2]<=[2,4]T(1,0)");
  const auto second = AllReduceOf("f32[8]", "[4,2]<=[2,4]T(1,0)");
  RunAssigner(Job(8, 4, 8), first.get());
  RunAssigner(Job(8, 4, 8), second.get());
  EXPECT_EQ(first->ToString(), second->ToString());
}

}  // namespace
}  // namespace xla::gpu
