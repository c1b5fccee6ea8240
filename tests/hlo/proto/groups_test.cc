#include "xla_patch/hlo/proto/groups.h"

#include <doctest/doctest.h>

#include "tests/hlo/hlo_builder.h"
#include "xla_patch/hlo/proto/device_assignment.h"

namespace xla_shmem::hlo {
namespace {

using Groups = std::vector<std::vector<int64_t>>;
using test::Message;

DeviceAssignment Assignment(const Groups& by_partition) {
  auto made = ParseDeviceAssignment(test::DeviceAssignmentProto(by_partition).str());
  REQUIRE_MESSAGE(made.ok(), made.message());
  return *std::move(made);
}

Groups Split(const DeviceGroups& groups) {
  Groups split;
  for (int64_t i = 0; i < groups.size(); ++i) {
    split.emplace_back(groups.devices.begin() + groups.offsets[i], groups.devices.begin() + groups.offsets[i + 1]);
  }
  return split;
}

// Resolves one list message of the oneof; 8 partitions on devices 0-7 unless said otherwise. An error comes back as
// text.
struct Resolved {
  Groups groups;
  std::string error;
};
Resolved Resolve(uint32_t field, const Message& list, GroupMode mode = GroupMode::kFlattenedId,
                 const DeviceAssignment& assignment = Assignment({{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}})) {
  GroupFields fields;
  fields.list_field = field;
  fields.list = list.str();
  const Result<DeviceGroups> groups = ResolveGroups(fields, mode, assignment);
  return {groups.ok() ? Split(*groups) : Groups(), groups.message()};
}

Message Iota(int64_t groups, int64_t size, const std::vector<int64_t>& dims, const std::vector<int64_t>& perm) {
  return Message().Int(1, groups).Int(2, size).Ints(3, dims).Ints(4, perm);
}
Message List(const Groups& groups) {
  Message list;
  for (const auto& group : groups) {
    list.Sub(1, Message().Ints(1, group));
  }
  return list;
}
Message MeshOf(const std::vector<int64_t>& sizes) {
  Message mesh;
  for (size_t i = 0; i < sizes.size(); ++i) {
    mesh.Sub(1, Message().Bytes(1, std::string(1, static_cast<char>('a' + i))).Int(2, sizes[i]));
  }
  return mesh;
}
Message Axis(int64_t index) { return Message().Int(1, index); }
Message SubAxis(int64_t index, int64_t pre, int64_t size) {
  return Message().Int(1, index).Sub(2, Message().Int(1, pre).Int(2, size));
}
Message OverAxes(const Message& mesh, const std::vector<Message>& axes) {
  Message list;
  list.Sub(1, mesh);
  for (const Message& axis : axes) {
    list.Sub(2, axis);
  }
  return list;
}

TEST_CASE("lists keep the order of groups and of ids") {
  CHECK(Resolve(87, List({{3, 0}, {1, 2}})).groups == Groups{{3, 0}, {1, 2}});
}

TEST_CASE("the legacy list counts, also beside an empty newer one") {
  const std::string group = Message().Ints(1, {2, 5}).str();
  GroupFields fields;
  fields.replica_groups = {group};
  fields.list_field = 87;
  const Result<DeviceGroups> groups =
      ResolveGroups(fields, GroupMode::kFlattenedId, Assignment({{0}, {1}, {2}, {3}, {4}, {5}}));
  REQUIRE_MESSAGE(groups.ok(), groups.message());
  CHECK(Split(*groups) == Groups{{2, 5}});
}

TEST_CASE("iota with and without transpose") {
  CHECK(Resolve(92, Iota(2, 4, {8}, {0})).groups == Groups{{0, 1, 2, 3}, {4, 5, 6, 7}});
  CHECK(Resolve(92, Iota(2, 4, {4, 2}, {1, 0})).groups == Groups{{0, 2, 4, 6}, {1, 3, 5, 7}});
  CHECK(Resolve(92, Iota(4, 2, {2, 2, 2}, {1, 2, 0})).groups == Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  CHECK(Resolve(92, Iota(1, 8, {1, 8, 1}, {2, 0, 1})).groups == Groups{{0, 1, 2, 3, 4, 5, 6, 7}});
}

TEST_CASE("the iota of older releases sits inside the device list") {
  CHECK(Resolve(87, Message().Sub(2, Iota(2, 4, {4, 2}, {1, 0}))).groups == Groups{{0, 2, 4, 6}, {1, 3, 5, 7}});
}

TEST_CASE("mesh axes: groups differ only in the named axes") {
  const Message mesh = MeshOf({2, 4});
  CHECK(Resolve(93, OverAxes(mesh, {Axis(0)})).groups == Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  CHECK(Resolve(93, OverAxes(mesh, {Axis(1)})).groups == Groups{{0, 1, 2, 3}, {4, 5, 6, 7}});
  CHECK(Resolve(93, OverAxes(mesh, {Axis(1), Axis(0)})).groups == Groups{{0, 4, 1, 5, 2, 6, 3, 7}});
  CHECK(Resolve(93, OverAxes(mesh, {})).groups.size() == 8);
}

TEST_CASE("mesh sub-axes: (pre-size)size cuts an axis") {
  const Message mesh = MeshOf({8});
  CHECK(Resolve(93, OverAxes(mesh, {SubAxis(0, 1, 2)})).groups == Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  CHECK(Resolve(93, OverAxes(mesh, {SubAxis(0, 2, 2)})).groups == Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
  CHECK(Resolve(93, OverAxes(mesh, {SubAxis(0, 4, 2)})).groups == Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  CHECK(Resolve(93, OverAxes(mesh, {SubAxis(0, 4, 2), SubAxis(0, 1, 2)})).groups == Groups{{0, 4, 1, 5}, {2, 6, 3, 7}});
}

TEST_CASE("a mesh may order its devices explicitly or by a transposed iota") {
  const Message explicit_ids = Message(MeshOf({2, 2})).Ints(2, {3, 1, 2, 0});
  CHECK(Resolve(93, OverAxes(explicit_ids, {Axis(1)})).groups == Groups{{3, 1}, {2, 0}});
  const Message transposed = Message(MeshOf({4, 2})).Sub(3, Message().Ints(1, {2, 4}).Ints(2, {1, 0}));
  CHECK(Resolve(93, OverAxes(transposed, {Axis(1)})).groups == Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
}

TEST_CASE("nonsense meshes are errors") {
  for (const Message& list :
       {OverAxes(MeshOf({3}), {SubAxis(0, 2, 2)}), OverAxes(MeshOf({8}), {SubAxis(0, 1, 4), SubAxis(0, 2, 2)}),
        OverAxes(MeshOf({8}), {SubAxis(0, 0, 2)}), OverAxes(MeshOf({8}), {Axis(1)}), OverAxes(MeshOf({8}), {Axis(-1)}),
        OverAxes(MeshOf({8}), {Axis(0), Axis(0)}), OverAxes(MeshOf({0}), {Axis(0)}), OverAxes(Message(), {}),
        OverAxes(Message(MeshOf({4})).Ints(2, {0, 1}), {Axis(0)})}) {
    CHECK_FALSE(Resolve(93, list).error.empty());
  }
}

TEST_CASE("absurd sizes are refused before anything is allocated") {
  const int64_t huge = int64_t{1} << 60;
  CHECK(Resolve(92, Iota(1, huge, {huge}, {0})).error.find("more than 8 ids") != std::string::npos);
  CHECK_FALSE(Resolve(92, Iota(huge, huge, {huge, huge}, {0, 1})).error.empty());
  CHECK_FALSE(Resolve(92, Iota(1, 1, std::vector<int64_t>(100000, 1), {})).error.empty());
  CHECK_FALSE(Resolve(93, OverAxes(MeshOf({huge, huge}), {Axis(0)})).error.empty());
  CHECK_FALSE(Resolve(92, Iota(-1, -8, {8}, {0})).error.empty());
  CHECK_FALSE(Resolve(92, Iota(2, 4, {4, 2}, {1, 1})).error.empty());
  CHECK_FALSE(Resolve(92, Iota(2, 4, {4, 2}, {0})).error.empty());
  CHECK_FALSE(Resolve(92, Iota(2, 2, {4, 2}, {0, 1})).error.empty());
}

TEST_CASE("ids the module does not have, and empty groups, are errors") {
  CHECK(Resolve(87, List({{0, 8}})).error == "replica groups: device 8, but the module has 8");
  CHECK(Resolve(87, List({{-1}})).error == "replica groups: device -1, but the module has 8");
  CHECK(Resolve(87, List({{}})).error == "replica groups: an empty group");
  CHECK_FALSE(Resolve(87, List({{0, 1, 2, 3, 4, 5, 6, 7, 0}})).error.empty());
}

// 2 replicas x 3 partitions; device = 10 * replica + partition.
const Groups kTwoByThree = {{0, 10}, {1, 11}, {2, 12}};

TEST_CASE("the four modes give ids their meaning") {
  const DeviceAssignment assignment = Assignment(kTwoByThree);
  CHECK(Resolve(87, List({{0, 1}}), GroupMode::kCrossReplica, assignment).groups == Groups{{0, 10}, {1, 11}, {2, 12}});
  CHECK(Resolve(87, List({{0, 2}, {1}}), GroupMode::kCrossPartition, assignment).groups ==
        Groups{{0, 2}, {10, 12}, {1}, {11}});
  CHECK(Resolve(87, List({{0}, {1}}), GroupMode::kCrossReplicaAndPartition, assignment).groups ==
        Groups{{0, 1, 2}, {10, 11, 12}});
  CHECK(Resolve(87, List({{0, 4}, {5, 1}}), GroupMode::kFlattenedId, assignment).groups == Groups{{0, 11}, {12, 1}});
}

TEST_CASE("no groups means all devices, by mode") {
  const DeviceAssignment assignment = Assignment(kTwoByThree);
  CHECK(Resolve(0, Message(), GroupMode::kCrossReplica, assignment).groups == Groups{{0, 10}, {1, 11}, {2, 12}});
  CHECK(Resolve(87, Message(), GroupMode::kCrossPartition, assignment).groups == Groups{{0, 1, 2}, {10, 11, 12}});
  CHECK(Resolve(0, Message(), GroupMode::kCrossReplicaAndPartition, assignment).groups ==
        Groups{{0, 1, 2, 10, 11, 12}});
}

TEST_CASE("channel and use_global_device_ids select the mode") {
  CHECK(*GetGroupMode(false, true, false) == GroupMode::kCrossReplica);
  CHECK(*GetGroupMode(true, false, false) == GroupMode::kCrossPartition);
  CHECK(*GetGroupMode(true, true, false) == GroupMode::kCrossReplicaAndPartition);
  CHECK(*GetGroupMode(true, true, true) == GroupMode::kFlattenedId);
  CHECK(GetGroupMode(false, true, true).message() == "replica groups: use_global_device_ids without a channel_id");
  for (const bool has_channel_id : {false, true}) {
    CHECK(GetGroupMode(has_channel_id, false, true).message() ==
          "replica groups: use_global_device_ids for an op that has no such flag");
  }
}

TEST_CASE("without an assignment logical id i is the i-th device") {
  const DeviceAssignment logical = DeviceAssignment::Logical({4, 5, 6, 7});
  CHECK(Resolve(87, List({{0, 3}}), GroupMode::kFlattenedId, logical).groups == Groups{{4, 7}});
  CHECK(Resolve(0, Message(), GroupMode::kCrossReplica, logical).groups == Groups{{4, 5, 6, 7}});
  CHECK(Resolve(87, List({{0}, {1}}), GroupMode::kCrossReplicaAndPartition, logical).groups == Groups{{4, 5}, {6, 7}});
  CHECK_FALSE(Resolve(87, List({{0, 1, 2}}), GroupMode::kCrossReplicaAndPartition, logical).error.empty());
  CHECK(Resolve(87, List({{7, 9}}), GroupMode::kFlattenedId, DeviceAssignment::Unknown()).groups == Groups{{7, 9}});
}

TEST_CASE("pairs are replicas without a channel and partitions with one, for every slice of the other") {
  const DeviceAssignment assignment = Assignment(kTwoByThree);
  using Pairs = std::vector<std::pair<int64_t, int64_t>>;
  CHECK(*ResolvePairs({{0, 1}}, false, assignment) == Pairs{{0, 10}, {1, 11}, {2, 12}});
  CHECK(*ResolvePairs({{0, 2}, {2, 1}}, true, assignment) == Pairs{{0, 2}, {2, 1}, {10, 12}, {12, 11}});
  CHECK(ResolvePairs({{0, 2}}, false, assignment).message() == "source-target pairs: replica 2, but the module has 2");
  CHECK_FALSE(ResolvePairs({{-1, 0}}, true, assignment).ok());
  CHECK(*ResolvePairs({{0, 3}}, true, DeviceAssignment::Logical({4, 5, 6, 7})) == Pairs{{4, 7}});
}

TEST_CASE("a device assignment that contradicts itself is refused") {
  for (const Message& proto :
       {Message().Int(1, 2).Int(2, 1).Sub(3, Message().Ints(1, {0})),
        Message().Int(1, 1).Int(2, 2).Sub(3, Message().Ints(1, {0})), Message().Int(1, 0).Int(2, 1),
        Message().Int(1, int64_t{1} << 31).Int(2, int64_t{1} << 31)}) {
    CHECK(ParseDeviceAssignment(proto.str()).message().find("device assignment: ") == 0);
  }
}

}  // namespace
}  // namespace xla_shmem::hlo
