#include "xla/backends/gpu/transforms/collectives/shmem/hlo_collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "xla/backends/gpu/transforms/collectives/shmem/job_topology.h"
#include "xla/backends/gpu/transforms/collectives/shmem/test_modules.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/service/hlo.pb.h"

namespace xla::gpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::xla_shmem::CollectiveSpec;
using ::xla_shmem::ElementType;
using ::xla_shmem::ReductionKind;
using Groups = std::vector<std::vector<int64_t>>;

std::optional<HloCollective> Read(const HloModule& module, absl::string_view name) {
  const auto topology = UniformTopology(NumJobDevices(module), 1, 0);
  EXPECT_TRUE(topology.ok()) << topology.status();
  const auto assignment = ReadDeviceAssignment(module, *topology);
  EXPECT_TRUE(assignment.ok()) << assignment.status();
  return ReadCollective(Find(module, name), *assignment);
}

CollectiveSpec SpecOf(const HloModule& module, absl::string_view name = "c") {
  const auto collective = Read(module, name);
  EXPECT_TRUE(collective.has_value());
  return collective.has_value() ? collective->spec : CollectiveSpec();
}

Groups GroupsOf(const CollectiveSpec& spec) {
  EXPECT_EQ(spec.unsupported_participants, std::nullopt);
  Groups groups;
  for (int64_t i = 0; i < spec.groups.size(); ++i) {
    groups.emplace_back(spec.groups.devices.begin() + spec.groups.offsets[i],
                        spec.groups.devices.begin() + spec.groups.offsets[i + 1]);
  }
  return groups;
}

constexpr absl::string_view kFlattened = "channel_id=1, use_global_device_ids=true";

std::unique_ptr<HloModule> AllReduce(absl::string_view groups, absl::string_view attributes = kFlattened,
                                     int64_t replicas = 1, int64_t partitions = 8) {
  return Parse(absl::StrCat("HloModule m\n", kReductions, "ENTRY main {\n  p = f32[4] parameter(0)\n",
                            "  ROOT c = f32[4] all-reduce(p), to_apply=sum, replica_groups=", groups,
                            attributes.empty() ? "" : ", ", attributes, "\n}"),
               replicas, partitions);
}

// A parser of XLA that does not know mesh axes yet still has their class, so they go in by the proto.
std::unique_ptr<HloModule> AllReduceOverMesh(const std::vector<int64_t>& axis_sizes,
                                             const std::vector<int64_t>& devices,
                                             const std::vector<AxisRefProto>& axes) {
  const auto module = AllReduce("[1,8]<=[8]");
  HloModuleProto proto = module->ToProto();
  for (HloComputationProto& computation : *proto.mutable_computations()) {
    for (HloInstructionProto& instruction : *computation.mutable_instructions()) {
      if (instruction.name() != "c") continue;
      MeshAxesReplicaGroupListProto* list = instruction.mutable_mesh_axes_replica_group_list();
      for (size_t i = 0; i < axis_sizes.size(); ++i) {
        auto* axis = list->mutable_mesh()->add_axes();
        axis->set_name(std::string(1, static_cast<char>('a' + i)));
        axis->set_size(axis_sizes[i]);
      }
      list->mutable_mesh()->mutable_device_ids()->Add(devices.begin(), devices.end());
      for (const AxisRefProto& axis : axes) *list->add_axes() = axis;
    }
  }
  auto result = HloModule::CreateFromProto(proto, module->config());
  EXPECT_TRUE(result.ok()) << result.status();
  return *std::move(result);
}

AxisRefProto Axis(int64_t index) {
  AxisRefProto axis;
  axis.set_mesh_axis_index(index);
  return axis;
}
AxisRefProto SubAxis(int64_t index, int64_t pre_size, int64_t size) {
  AxisRefProto axis = Axis(index);
  axis.mutable_sub_axis_info()->set_pre_size(pre_size);
  axis.mutable_sub_axis_info()->set_size(size);
  return axis;
}

TEST(HloCollectiveTest, ListsKeepTheOrderOfGroupsAndIds) {
  EXPECT_EQ(GroupsOf(SpecOf(*AllReduce("{{7,0},{1,2},{6,5},{3,4}}"))), (Groups{{7, 0}, {1, 2}, {6, 5}, {3, 4}}));
}

TEST(HloCollectiveTest, IotaGroupsAreRows) {
  EXPECT_EQ(GroupsOf(SpecOf(*AllReduce("[2,4]<=[8]"))), (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
}

TEST(HloCollectiveTest, TransposedIotaGroupsAreColumns) {
  EXPECT_EQ(GroupsOf(SpecOf(*AllReduce("[2,4]<=[4,2]T(1,0)"))), (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}}));
}

TEST(HloCollectiveTest, IotaOverThreeDimensionsFollowsItsTranspose) {
  EXPECT_EQ(GroupsOf(SpecOf(*AllReduce("[4,2]<=[2,2,2]T(1,2,0)"))), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
}

TEST(HloCollectiveTest, MeshAxesGroupDevicesThatDifferInThemOnly) {
  EXPECT_EQ(GroupsOf(SpecOf(*AllReduceOverMesh({2, 4}, {}, {Axis(1)}))), (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(GroupsOf(SpecOf(*AllReduceOverMesh({2, 4}, {}, {Axis(0)}))), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
}

TEST(HloCollectiveTest, MeshSubAxesCutAnAxis) {
  EXPECT_EQ(GroupsOf(SpecOf(*AllReduceOverMesh({8}, {}, {SubAxis(0, 2, 2)}))),
            (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
}

TEST(HloCollectiveTest, AMeshMayOrderItsDevices) {
  EXPECT_EQ(GroupsOf(SpecOf(*AllReduceOverMesh({2, 4}, {7, 6, 5, 4, 3, 2, 1, 0}, {Axis(1)}))),
            (Groups{{7, 6, 5, 4}, {3, 2, 1, 0}}));
}

TEST(HloCollectiveTest, NoGroupsMeansAllDevices) {
  EXPECT_EQ(GroupsOf(SpecOf(*AllReduce("{}", "channel_id=1"))), (Groups{{0, 1, 2, 3, 4, 5, 6, 7}}));
}

// 2 replicas x 3 partitions; device = 10 * replica + partition.
const Groups kTwoByThree = {{0, 10}, {1, 11}, {2, 12}};

Groups PlacedGroups(absl::string_view groups, absl::string_view attributes) {
  const auto module = AllReduce(groups, attributes, /*replicas=*/2, /*partitions=*/3);
  PlaceOn(kTwoByThree, module.get());
  return GroupsOf(SpecOf(*module));
}

TEST(HloCollectiveTest, IdsAreReplicasWithoutAChannel) {
  EXPECT_EQ(PlacedGroups("{{0,1}}", ""), (Groups{{0, 10}, {1, 11}, {2, 12}}));
}

TEST(HloCollectiveTest, IdsAreReplicasOfAllPartitionsWithAChannel) {
  EXPECT_EQ(PlacedGroups("{{0},{1}}", "channel_id=1"), (Groups{{0, 1, 2}, {10, 11, 12}}));
}

TEST(HloCollectiveTest, IdsAreFlattenedWithUseGlobalDeviceIds) {
  EXPECT_EQ(PlacedGroups("{{0,4},{5,1},{2,3}}", kFlattened), (Groups{{0, 11}, {12, 1}, {2, 10}}));
}

TEST(HloCollectiveTest, IdsOfAnAllToAllWithAChannelArePartitions) {
  const auto module = Parse(R"(HloModule m
    ENTRY main {
      p = f32[6] parameter(0)
      ROOT c = f32[6] all-to-all(p), channel_id=1, dimensions={0}, replica_groups={{0,2,1}}
    })",
                            2, 3);
  PlaceOn(kTwoByThree, module.get());
  EXPECT_EQ(GroupsOf(SpecOf(*module)), (Groups{{0, 2, 1}, {10, 12, 11}}));
}

TEST(HloCollectiveTest, AnIdTheModuleDoesNotHaveIsUnsupported) {
  EXPECT_EQ(SpecOf(*AllReduce("{{0,8}}")).unsupported_participants, "replica groups: device 8, but the module has 8");
}

TEST(HloCollectiveTest, PairsArePartitionsWithAChannel) {
  const auto module =
      ParseEntry("ROOT c = f32[4] collective-permute(p), channel_id=1, source_target_pairs={{0,2},{2,1}}", 3);
  PlaceOn({{5}, {3}, {4}}, module.get());
  EXPECT_THAT(SpecOf(*module).pairs, ElementsAre(Pair(5, 4), Pair(4, 3)));
}

TEST(HloCollectiveTest, PairsAreReplicasOfEveryPartitionWithoutAChannel) {
  const auto module = Parse(R"(HloModule m
    ENTRY main {
      p = f32[4] parameter(0)
      ROOT c = f32[4] collective-permute(p), source_target_pairs={{0,1}}
    })",
                            2, 3);
  PlaceOn(kTwoByThree, module.get());
  EXPECT_THAT(SpecOf(*module).pairs, ElementsAre(Pair(0, 10), Pair(1, 11), Pair(2, 12)));
}

TEST(HloCollectiveTest, BytesOfACombinedAllReduceAreSummed) {
  const auto module = ParseEntry(R"(
    h = f32[6] constant({0, 1, 2, 3, 4, 5})
    ROOT c = (f32[4], f32[6]) all-reduce(p, h), channel_id=1, to_apply=sum, replica_groups={})");
  const CollectiveSpec spec = SpecOf(*module);
  EXPECT_EQ(spec.bytes, 40);
  EXPECT_THAT(spec.element_types, ElementsAre(ElementType::kF32, ElementType::kF32));
}

TEST(HloCollectiveTest, TypesOfLessThanAByteAreCountedAsXlaStoresThem) {
  const auto module = Parse(R"(HloModule m
    ENTRY main {
      p = s4[5] parameter(0)
      q = s4[5]{0:E(4)} parameter(1)
      wide = s4[5] collective-permute(p), channel_id=1, source_target_pairs={{0,1}}
      packed = s4[5]{0:E(4)} collective-permute(q), channel_id=2, source_target_pairs={{0,1}}
      ROOT t = (s4[5], s4[5]{0:E(4)}) tuple(wide, packed)
    })",
                            1, 2);
  EXPECT_EQ(SpecOf(*module, "wide").bytes, 5);
  EXPECT_EQ(SpecOf(*module, "packed").bytes, 3);
}

TEST(HloCollectiveTest, TheResultOfAPermuteStartIsItsSecondElement) {
  const auto module = ParseEntry(R"(
    s = (f32[4], f32[4]) collective-permute-start(p), channel_id=1, source_target_pairs={{0,1}}
    ROOT d = f32[4] collective-permute-done(s))");
  EXPECT_EQ(SpecOf(*module, "s").bytes, 16);
  EXPECT_EQ(Read(*module, "s")->done, Find(*module, "d"));
  EXPECT_FALSE(Read(*module, "d").has_value());
}

TEST(HloCollectiveTest, AnAsyncStartAroundItIsWhatAUserSees) {
  const auto module = Parse(R"(HloModule m
    wrapped { x = f32[4] parameter(0)  ROOT c = f32[4] collective-permute(x), channel_id=1, source_target_pairs={{0,1}} }
    ENTRY main {
      p = f32[4] parameter(0)
      s = ((f32[4]), f32[4]) async-start(p), calls=wrapped
      ROOT d = f32[4] async-done(s)
    })",
                            1, 2);
  const auto collective = Read(*module, "c");
  ASSERT_TRUE(collective.has_value());
  EXPECT_EQ(collective->spec.name, "s");
  EXPECT_EQ(collective->issued, Find(*module, "s"));
  EXPECT_EQ(collective->done, Find(*module, "d"));
  EXPECT_EQ(collective->unsupported_form, std::nullopt);
}

TEST(HloCollectiveTest, CollectivesThatShareAnAsyncComputationAreAGroup) {
  const auto module = Parse(R"(HloModule m
    group {
      x = f32[4] parameter(0)
      c = f32[4] collective-permute(x), channel_id=1, source_target_pairs={{0,1}}
      e = f32[4] collective-permute(x), channel_id=2, source_target_pairs={{1,0}}
      ROOT t = (f32[4], f32[4]) tuple(c, e)
    }
    ENTRY main {
      p = f32[4] parameter(0)
      s = ((f32[4]), (f32[4], f32[4])) async-start(p), calls=group
      ROOT d = (f32[4], f32[4]) async-done(s)
    })",
                            1, 2);
  for (const absl::string_view name : {"c", "e"}) {
    const auto collective = Read(*module, name);
    ASSERT_TRUE(collective.has_value());
    EXPECT_EQ(collective->unsupported_form, "its async computation holds more than the collective");
    // The start belongs to both.
    EXPECT_EQ(collective->spec.name, name);
    EXPECT_EQ(collective->issued, Find(*module, name));
    EXPECT_EQ(collective->done, nullptr);
  }
}

std::optional<ReductionKind> ReductionBy(absl::string_view type, absl::string_view body) {
  const auto module =
      Parse(absl::StrCat("HloModule m\nf { a = ", type, "[] parameter(0)  b = ", type, "[] parameter(1) ", body,
                         " }\nENTRY main { p = ", type, "[4] parameter(0)  ROOT c = ", type,
                         "[4] all-reduce(p), to_apply=f, replica_groups={} }"),
            8, 1);
  return SpecOf(*module).reduction;
}

TEST(HloCollectiveTest, PlainReductionsAreRecognised) {
  EXPECT_EQ(ReductionBy("f32", "ROOT r = f32[] add(a, b)"), ReductionKind::kSum);
  EXPECT_EQ(ReductionBy("f32", "ROOT r = f32[] multiply(b, a)"), ReductionKind::kProd);
  EXPECT_EQ(ReductionBy("s8", "ROOT r = s8[] minimum(a, b)"), ReductionKind::kMin);
  EXPECT_EQ(ReductionBy("u64", "ROOT r = u64[] maximum(a, b)"), ReductionKind::kMax);
  EXPECT_EQ(ReductionBy("pred", "ROOT r = pred[] and(a, b)"), ReductionKind::kAnd);
  EXPECT_EQ(ReductionBy("s32", "ROOT r = s32[] or(a, b)"), ReductionKind::kOr);
}

TEST(HloCollectiveTest, ASumOfBf16MayDetourThroughF32) {
  EXPECT_EQ(ReductionBy("bf16",
                        "x = f32[] convert(a)  y = f32[] convert(b)  s = f32[] add(x, y)  ROOT r = bf16[] convert(s)"),
            ReductionKind::kSum);
}

TEST(HloCollectiveTest, OtherComputationsAreNoPlainReduction) {
  EXPECT_EQ(ReductionBy("f32", "ROOT r = f32[] add(a, a)"), std::nullopt);
  EXPECT_EQ(ReductionBy("f32", "ROOT r = f32[] subtract(a, b)"), std::nullopt);
  EXPECT_EQ(ReductionBy("f32", "n = f32[] negate(b)  ROOT r = f32[] add(a, n)"), std::nullopt);
  EXPECT_EQ(
      ReductionBy("s32", "x = f32[] convert(a)  y = f32[] convert(b)  s = f32[] add(x, y)  ROOT r = s32[] convert(s)"),
      std::nullopt);
}

std::string UnsupportedFormOf(absl::string_view parameter, absl::string_view result) {
  const auto module =
      Parse(absl::StrCat("HloModule m\nENTRY main {\n  p = ", parameter, " parameter(0)\n  ROOT c = ", result,
                         " collective-permute(p), channel_id=1, source_target_pairs={{0,1}}\n}"),
            1, 2);
  return Read(*module, "c")->unsupported_form.value_or("");
}

TEST(HloCollectiveTest, BuffersOfDifferentLayoutAreUnsupported) {
  EXPECT_EQ(UnsupportedFormOf("f32[4,2]{1,0}", "f32[4,2]{1,0}"), "");
  EXPECT_THAT(UnsupportedFormOf("f32[4,2]{1,0}", "f32[4,2]{0,1}"), HasSubstr("differ in shape or layout"));
  EXPECT_THAT(UnsupportedFormOf("f32[4,2]{1,0:T(2,128)}", "f32[4,2]{1,0:T(2,128)}"),
              HasSubstr("differ in shape or layout"));
}

TEST(HloCollectiveTest, HostMemoryIsUnsupported) {
  EXPECT_EQ(UnsupportedFormOf("f32[4]{0:S(5)}", "f32[4]{0:S(5)}"), "it works on host memory");
}

TEST(HloCollectiveTest, DynamicDimensionsAreUnsupported) {
  EXPECT_EQ(UnsupportedFormOf("f32[<=4]", "f32[<=4]"), "it has dynamic dimensions");
}

TEST(HloCollectiveTest, OtherInstructionsAreNoCollectives) {
  const auto module = ParseEntry("ROOT c = f32[4] add(p, q)");
  EXPECT_FALSE(Read(*module, "c").has_value());
}

}  // namespace
}  // namespace xla::gpu
