#include "xla/backends/gpu/transforms/collectives/shmem/module_collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "xla/backends/gpu/transforms/collectives/shmem/test_modules.h"
#include "xla/hlo/ir/hlo_instruction.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla_patch/assigner/topology.h"

namespace xla::gpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

xla_shmem::Topology Devices(int number) {
  std::vector<xla_shmem::DeviceLocation> devices;
  for (int id = 0; id < number; ++id) devices.push_back({id, id, 0, 0, id});
  return *xla_shmem::Topology::Create(std::move(devices));
}

// "op issued done veto" of each collective.
std::vector<std::string> Visited(const HloModule& module) {
  std::vector<std::string> visited;
  const auto name = [](const HloInstruction* instruction) {
    return instruction == nullptr ? "-" : std::string(instruction->name());
  };
  const absl::Status status = VisitCollectives(module, Devices(8), [&](const ModuleCollective& found) {
    visited.push_back(absl::StrCat(name(found.op), " ", name(found.issued), " ", name(found.done), " ",
                                   xla_shmem::hlo::UnsupportedOnGpu(found.collective).value_or("")));
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  return visited;
}

TEST(ModuleCollectivesTest, InstructionsAreFoundInEveryForm) {
  const auto module = Parse(absl::StrCat("HloModule m\n", kReductions, R"(
    wrapped { x = f32[4] parameter(0)  ROOT c = f32[4] collective-permute(x), channel_id=1, source_target_pairs={{0,1}} }
    ENTRY main {
      p = f32[4] parameter(0)
      one = f32[4] all-reduce(p), channel_id=2, to_apply=sum, replica_groups={}
      s = f32[4] all-reduce-start(one), channel_id=3, to_apply=sum, replica_groups={}
      d = f32[4] all-reduce-done(s)
      ws = ((f32[4]), f32[4]) async-start(d), calls=wrapped
      ROOT wd = f32[4] async-done(ws)
    })"),
                            1, 8);
  EXPECT_THAT(Visited(*module), ElementsAre("c ws wd ", "one one - ", "s s d "));
}

TEST(ModuleCollectivesTest, AModuleWithoutCollectivesHasNone) {
  EXPECT_THAT(Visited(*ParseEntry("ROOT c = f32[4] add(p, q)")), IsEmpty());
}

TEST(ModuleCollectivesTest, IdsAreThoseOfTheDeviceAssignment) {
  const auto module =
      ParseEntry("ROOT c = f32[4] collective-permute(p), channel_id=1, source_target_pairs={{0,2},{2,1}}", 3);
  std::vector<std::pair<int64_t, int64_t>> pairs;
  const auto read = [&](const ModuleCollective& found) {
    pairs = found.collective.spec.pairs;
    return absl::OkStatus();
  };
  ASSERT_TRUE(VisitCollectives(*module, Devices(8), read).ok());
  EXPECT_THAT(pairs, ElementsAre(Pair(0, 2), Pair(2, 1)));
  PlaceOn({{5}, {3}, {4}}, module.get());
  ASSERT_TRUE(VisitCollectives(*module, Devices(8), read).ok());
  EXPECT_THAT(pairs, ElementsAre(Pair(5, 4), Pair(4, 3)));
}

TEST(ModuleCollectivesTest, WhatCannotBeCarriedHasAReason) {
  const auto module = Parse(R"(HloModule m
    group {
      x = f32[4] parameter(0)
      c = f32[4] collective-permute(x), channel_id=1, source_target_pairs={{0,1}}
      e = f32[4] collective-permute(x), channel_id=2, source_target_pairs={{1,0}}
      ROOT t = (f32[4], f32[4]) tuple(c, e)
    }
    ENTRY main {
      p = f32[4] parameter(0)
      n = s32[8] parameter(1)
      s = ((f32[4]), (f32[4], f32[4])) async-start(p), calls=group
      d = (f32[4], f32[4]) async-done(s)
      r = f32[4] ragged-all-to-all(p, p, n, n, n, n), channel_id=3, replica_groups={{0,1,2,3,4,5,6,7}}
      ROOT h = f32[4]{0:S(5)} collective-permute(r), channel_id=4, source_target_pairs={{0,1}}
    })",
                            1, 8);
  EXPECT_THAT(Visited(*module),
              ElementsAre(HasSubstr("its async computation holds more than the collective"),
                          HasSubstr("its async computation holds more than the collective"),
                          "r r - its offsets and sizes are not s64", "h h - it works on host memory"));
}

TEST(ModuleCollectivesTest, AnErrorOfTheVisitorEndsIt) {
  const auto module = ParseEntry(R"(
    a = f32[4] collective-permute(p), channel_id=1, source_target_pairs={{0,1}}
    ROOT b = f32[4] collective-permute(a), channel_id=2, source_target_pairs={{0,1}})");
  int visits = 0;
  const absl::Status status = VisitCollectives(*module, Devices(8), [&](const ModuleCollective& /*found*/) {
    ++visits;
    return absl::InternalError("enough");
  });
  EXPECT_EQ(status.message(), "enough");
  EXPECT_EQ(visits, 1);
}

}  // namespace
}  // namespace xla::gpu
