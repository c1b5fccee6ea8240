#include "xla/backends/gpu/transforms/collectives/shmem/captured_control_flow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "xla/backends/gpu/transforms/collectives/shmem/test_modules.h"
#include "xla/backends/gpu/transforms/collectives/shmem/test_runs.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/xla.pb.h"

namespace xla::gpu {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::string_view kInConditional = R"(
yes { x = f32[4] parameter(0)  ROOT c = f32[4] all-reduce(x), channel_id=1, to_apply=sum, replica_groups={} }
no { ROOT y = f32[4] parameter(0) }
ENTRY main {
  p = f32[4] parameter(0)
  i = pred[] parameter(1)
  ROOT branch = f32[4] conditional(i, p, p), true_computation=yes, false_computation=no
})";

// The conditional is below a call below a loop.
constexpr absl::string_view kInLoop = R"(
callee { x = f32[4] parameter(0)  ROOT c = f32[4] all-reduce(x), channel_id=1, to_apply=sum, replica_groups={} }
body { y = f32[4] parameter(0)  ROOT called = f32[4] call(y), to_apply=callee }
more { z = f32[4] parameter(0)  ROOT yes = pred[] constant(true) }
ENTRY main { p = f32[4] parameter(0)  ROOT loop = f32[4] while(p), condition=more, body=body })";

std::string Veto(absl::string_view text, const std::vector<DebugOptions::CommandBufferCmdType>& captured) {
  const auto module = Parse(absl::StrCat("HloModule m\n", kReductions, text), /*replicas=*/1, /*partitions=*/8);
  DebugOptions& options = module->mutable_config().mutable_debug_options();
  options.clear_xla_gpu_enable_command_buffer();
  for (const DebugOptions::CommandBufferCmdType command : captured) options.add_xla_gpu_enable_command_buffer(command);
  RunAssigner(Job(8, 1, 0), module.get());
  return Attribute(*module, "c", "veto");
}

TEST(CapturedControlFlowTest, ACollectiveBelowACapturedConditionalStaysDefault) {
  EXPECT_THAT(Veto(kInConditional, {DebugOptions::COLLECTIVES, DebugOptions::CONDITIONAL}),
              HasSubstr("below branch, which XLA may capture into a CUDA graph: --xla_gpu_enable_command_buffer lists "
                        "COLLECTIVES and CONDITIONAL"));
}

TEST(CapturedControlFlowTest, ACollectiveBelowACapturedLoopStaysDefault) {
  EXPECT_THAT(Veto(kInLoop, {DebugOptions::FUSION, DebugOptions::COLLECTIVES, DebugOptions::WHILE}),
              HasSubstr("below loop, which XLA may capture into a CUDA graph: --xla_gpu_enable_command_buffer lists "
                        "COLLECTIVES and WHILE"));
}

TEST(CapturedControlFlowTest, WhatXlaDoesNotCaptureTogetherIsCarried) {
  EXPECT_THAT(Veto(kInConditional, {}), IsEmpty());
  EXPECT_THAT(Veto(kInConditional, {DebugOptions::CONDITIONAL}), IsEmpty());
  EXPECT_THAT(Veto(kInConditional, {DebugOptions::COLLECTIVES, DebugOptions::WHILE}), IsEmpty());
  EXPECT_THAT(Veto(kInLoop, {DebugOptions::COLLECTIVES, DebugOptions::CONDITIONAL}), IsEmpty());
}

TEST(CapturedControlFlowTest, ACollectiveOutsideOfControlFlowIsCarried) {
  constexpr absl::string_view kPlain =
      "ENTRY main { p = f32[4] parameter(0)  ROOT c = f32[4] all-reduce(p), channel_id=1, to_apply=sum, "
      "replica_groups={} }";
  EXPECT_THAT(Veto(kPlain, {DebugOptions::COLLECTIVES, DebugOptions::CONDITIONAL, DebugOptions::WHILE}), IsEmpty());
}

}  // namespace
}  // namespace xla::gpu
