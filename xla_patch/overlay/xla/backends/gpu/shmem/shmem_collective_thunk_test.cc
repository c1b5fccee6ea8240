// The calls in thunks of all kinds of collectives.
#include "xla/backends/gpu/shmem/shmem_collective_thunk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "xla/backends/gpu/runtime/collective_broadcast_thunk.h"
#include "xla/backends/gpu/runtime/collective_thunk.h"
#include "xla/backends/gpu/runtime/thunk.h"
#include "xla/ffi/attribute_map.h"
#include "xla/service/buffer_assignment.h"
#include "xla/service/shaped_slice.h"
#include "xla/shape_util.h"
#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/nvshmem/gpu/nvrtc.h"
#include "xla_patch/types/collective_op.h"

// No device code is compiled here.
const char xla_shmem::gpu::kKernelSource[] = "";

namespace xla::gpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::xla_shmem::CollectiveOp;

class ShmemCollectiveThunkTest : public ::testing::Test {
 protected:
  ShmemCollectiveThunkTest() { allocations_.reserve(16); }

  // A collective with so many arrays, each in an allocation of its own: operand i in 2 * i, its result behind it.
  absl::StatusOr<std::unique_ptr<ShmemCollectiveThunk>> Make(CollectiveOp op, size_t arrays, int64_t elements = 4,
                                                             const std::string& name = "instruction",
                                                             bool is_async = false) {
    std::vector<CollectiveThunk::Buffer> buffers;
    for (size_t i = 0; i < arrays; ++i) buffers.push_back({elements, Slice(elements), Slice(elements), 0, 0});
    ShmemCollective collective;
    collective.spec.op = op;
    collective.spec.name = name;
    collective.spec.element_types.assign(arrays, xla_shmem::ElementType::kF32);
    collective.is_async = is_async;
    collective.arguments.AddInt("op", 7);
    collective.arguments.AddString("module", "step");
    collective.arguments.AddInts("groups", {2, 0, 3, 1});
    auto upstream = std::make_unique<CollectiveBroadcastThunk>(Thunk::ThunkInfo(), CollectiveConfig(), buffers);
    return ShmemCollectiveThunk::Create(std::move(upstream), collective);
  }

  ShapedSlice Slice(int64_t elements) {
    const Shape shape = ShapeUtil::MakeShapeWithDenseLayout(F32, {elements}, {0});
    const int64_t bytes = ShapeUtil::ByteSizeOf(shape);
    allocations_.emplace_back(static_cast<int64_t>(allocations_.size()), bytes, /*color=*/0);
    return {{&allocations_.back(), 0, bytes}, shape};
  }

  std::vector<BufferAllocation> allocations_;
};

std::vector<int64_t> Allocations(const std::vector<NullableShapedSlice>& slices) {
  std::vector<int64_t> numbers;
  for (const NullableShapedSlice& slice : slices) numbers.push_back(slice->slice.index());
  return numbers;
}

ffi::AttributesMap AttributesOf(const ShmemCollectiveThunk& thunk) {
  const auto proto = thunk.call().ToProto();
  EXPECT_TRUE(proto.ok()) << proto.status();
  auto attributes = ffi::AttributesMap::FromProto(proto->custom_call_thunk().attributes());
  EXPECT_TRUE(attributes.ok()) << attributes.status();
  return *std::move(attributes);
}

int64_t Number(const ShmemCollectiveThunk& thunk, const std::string& name) {
  return std::get<int64_t>(std::get<ffi::Scalar>(AttributesOf(thunk).at(name).AsVariant()).AsVariant());
}

TEST_F(ShmemCollectiveThunkTest, TheCallIsThatOfTheOpWithAllArrays) {
  const auto thunk = Make(CollectiveOp::kAllReduce, 2);
  ASSERT_TRUE(thunk.ok()) << thunk.status();
  EXPECT_EQ((*thunk)->call().target_name(), "xla_shmem.all_reduce");
  EXPECT_THAT(Allocations((*thunk)->call().operands()), ElementsAre(0, 2));
  EXPECT_THAT(Allocations((*thunk)->call().results()), ElementsAre(1, 3));
  EXPECT_EQ((*thunk)->call().priority(), se::StreamPriority::Highest);
  EXPECT_EQ((*thunk)->kind(), Thunk::kCollectiveBroadcast);  // upstream's
}

TEST_F(ShmemCollectiveThunkTest, ACollectiveOnAnotherStreamIsAPairOfCalls) {
  const auto targets = [](const ShmemCollectiveThunk& thunk) {
    std::vector<std::string> found;
    for (const CustomCallThunk* call : thunk.executed()) found.push_back(call->target_name());
    return found;
  };
  const auto thunk = Make(CollectiveOp::kAllReduce, 1);
  ASSERT_TRUE(thunk.ok()) << thunk.status();
  EXPECT_THAT(targets(**thunk), ElementsAre("xla_shmem.all_reduce"));
  const auto async = Make(CollectiveOp::kAllReduce, 1, 4, "instruction", /*is_async=*/true);
  ASSERT_TRUE(async.ok()) << async.status();
  EXPECT_THAT(targets(**async), ElementsAre("xla_shmem.all_reduce_start", "xla_shmem.all_reduce_done"));
  EXPECT_EQ((*async)->call().target_name(), "xla_shmem.all_reduce");  // in a graph
}

TEST_F(ShmemCollectiveThunkTest, TheCallHasThePluginsArguments) {
  const auto thunk = Make(CollectiveOp::kAllGather, 1);
  ASSERT_TRUE(thunk.ok()) << thunk.status();
  const ffi::AttributesMap attributes = AttributesOf(**thunk);
  EXPECT_EQ(std::get<std::string>(attributes.at("module").AsVariant()), "step");
  EXPECT_THAT(std::get<std::vector<int64_t>>(std::get<ffi::Array>(attributes.at("groups").AsVariant()).AsVariant()),
              ElementsAre(2, 0, 3, 1));
}

TEST_F(ShmemCollectiveThunkTest, MessagesMatchBetweenProcessesThatNumberAndNameInstructionsDifferently) {
  const auto thunk = Make(CollectiveOp::kAllReduce, 1);
  const auto renamed = Make(CollectiveOp::kAllReduce, 1, 4, "instruction.1");
  const auto larger = Make(CollectiveOp::kAllReduce, 1, 5);
  EXPECT_EQ(Number(**thunk, "messages"), Number(**renamed, "messages"));
  EXPECT_NE(Number(**thunk, "messages"), Number(**larger, "messages"));
  // Records tell them apart.
  EXPECT_NE(Number(**thunk, "op"), Number(**renamed, "op"));
}

TEST_F(ShmemCollectiveThunkTest, ARaggedAllToAllHasOneResult) {
  const auto thunk = Make(CollectiveOp::kRaggedAllToAll, 6);
  ASSERT_TRUE(thunk.ok()) << thunk.status();
  EXPECT_THAT(Allocations((*thunk)->call().operands()), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(Allocations((*thunk)->call().results()), ElementsAre(3));
  EXPECT_THAT(std::string(Make(CollectiveOp::kRaggedAllToAll, 2).status().message()),
              HasSubstr("instruction: 2 buffers, of which a ragged all-to-all has 6"));
}

}  // namespace
}  // namespace xla::gpu
