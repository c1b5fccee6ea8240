// What the thunks of all kinds of collectives pass on to the transfers.
#include "xla/backends/gpu/shmem/shmem_collective_thunk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "xla/backends/gpu/runtime/collective_broadcast_thunk.h"
#include "xla/backends/gpu/runtime/collective_thunk.h"
#include "xla/backends/gpu/runtime/thunk.h"
#include "xla/backends/gpu/shmem/shmem_flag.h"
#include "xla/backends/gpu/shmem/shmem_runtime.h"
#include "xla/runtime/device_id.h"
#include "xla/runtime/process_id.h"
#include "xla/service/buffer_assignment.h"
#include "xla/service/computation_placer.h"
#include "xla/service/gpu/buffer_allocations.h"
#include "xla/shape_util.h"
#include "xla/stream_executor/device_address.h"
#include "xla/tsl/util/command_line_flags.h"
#include "xla/xla.pb.h"
#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/nvshmem/gpu/kernel_source.h"
#include "xla_patch/types/collective_op.h"

// No device code is compiled here.
const char xla_shmem::gpu::kKernelSource[] = "";

namespace xla::gpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::xla_shmem::CollectiveOp;

constexpr char kFlag[] = "xla_gpu_experimental_enable_nvshmem";

// Device 10 + p is that of process p. NVSHMEM does not run.
void NumberDevices() {
  if (DebugOptions::descriptor()->FindFieldByName(kFlag) == nullptr) {
    std::vector<std::string> flags = {std::string("--") + kFlag + "=true"};
    ASSERT_TRUE(tsl::Flags::Parse(flags, {NvshmemFlag()}));
  } else {
    ASSERT_EQ(setenv("XLA_FLAGS", (std::string("--") + kFlag + "=true").c_str(), 1), 0);
  }
  ShmemRuntime::Job job;
  job.num_processes = 4;
  job.device_ordinals = {0};
  job.is_mock = true;
  for (int process = 0; process < 4; ++process)
    job.device_to_process[GlobalDeviceId(10 + process)] = ProcessId(process);
  ShmemRuntime::Get().Start(std::move(job));
}

class ShmemCollectiveThunkTest : public ::testing::Test {
 protected:
  ShmemCollectiveThunkTest() {
    NumberDevices();
    allocations_.reserve(16);
  }

  // Operand i has `operands[i]` f32, its result `results[i]`.
  ShmemCollectiveThunk Make(CollectiveOp op, const std::vector<int64_t>& operands,
                            const std::vector<int64_t>& results) {
    std::vector<CollectiveThunk::Buffer> buffers;
    for (size_t i = 0; i < operands.size(); ++i) {
      buffers.push_back({operands[i], Slice(F32, operands[i]), Slice(F32, results[i]), 0, 0});
    }
    ShmemCollective collective;
    collective.name = "module/instruction";
    collective.spec.op = op;
    collective.spec.groups = {{12, 10, 13, 11}, {0, 2, 4}};
    if (xla_shmem::IsReducing(op)) collective.spec.reduction = xla_shmem::ReductionKind::kMax;
    collective.spec.element_types.assign(operands.size(), xla_shmem::ElementType::kF32);
    return Wrap(std::move(buffers), std::move(collective));
  }

  static ShmemCollectiveThunk Wrap(std::vector<CollectiveThunk::Buffer> buffers, ShmemCollective collective) {
    auto upstream = std::make_unique<CollectiveBroadcastThunk>(Thunk::ThunkInfo(), CollectiveConfig(), buffers);
    return ShmemCollectiveThunk(std::move(upstream), std::move(collective));
  }

  // An allocation of its own for each array: number i lies at 4096 * (i + 1).
  ShapedSlice Slice(PrimitiveType type, int64_t elements, int64_t columns = 0) {
    const Shape shape = columns == 0 ? ShapeUtil::MakeShapeWithDenseLayout(type, {elements}, {0})
                                     : ShapeUtil::MakeShapeWithDenseLayout(type, {elements, columns}, {1, 0});
    const auto index = static_cast<int64_t>(allocations_.size());
    const int64_t bytes = ShapeUtil::ByteSizeOf(shape);
    allocations_.emplace_back(index, bytes, /*color=*/0);
    addresses_.emplace_back(reinterpret_cast<void*>(4096 * (index + 1)), bytes);
    return {{&allocations_.back(), 0, bytes}, shape};
  }

  BufferAllocations Memory() const { return BufferAllocations(addresses_, /*device_ordinal=*/0, nullptr); }

  std::vector<BufferAllocation> allocations_;
  std::vector<se::DeviceAddressBase> addresses_;
};

std::vector<size_t> Addresses(const std::vector<const char*>& pointers) {
  std::vector<size_t> addresses;
  for (const char* pointer : pointers) addresses.push_back(reinterpret_cast<size_t>(pointer));
  return addresses;
}

TEST_F(ShmemCollectiveThunkTest, AnAllReduceHasItsGroupInGroupOrder) {
  const ShmemCollectiveThunk thunk = Make(CollectiveOp::kAllReduce, {4, 6}, {4, 6});
  const auto group = thunk.Group(Memory(), GlobalDeviceId(10));
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_EQ(group->op, CollectiveOp::kAllReduce);
  EXPECT_THAT(group->group, ElementsAre(2, 0));
  EXPECT_EQ(group->reduction, xla_shmem::ReductionKind::kMax);
  EXPECT_THAT(group->types, ElementsAre(xla_shmem::ElementType::kF32, xla_shmem::ElementType::kF32));
  EXPECT_THAT(group->buffers.bytes, ElementsAre(16, 24));
  EXPECT_THAT(Addresses(group->buffers.operands), ElementsAre(4096, 3 * 4096));
  EXPECT_THAT(Addresses({group->buffers.results.begin(), group->buffers.results.end()}),
              ElementsAre(2 * 4096, 4 * 4096));
}

TEST_F(ShmemCollectiveThunkTest, OperandsAndResultsHaveThePartsOfTheirOp) {
  const auto bytes = [&](CollectiveOp op, int64_t operand, int64_t result) {
    const auto group = Make(op, {operand}, {result}).Group(Memory(), GlobalDeviceId(11));
    EXPECT_TRUE(group.ok()) << group.status();
    EXPECT_THAT(group->group, ElementsAre(3, 1));
    EXPECT_FALSE(group->one_array_each);
    return group->buffers.bytes;
  };
  EXPECT_THAT(bytes(CollectiveOp::kAllGather, 4, 8), ElementsAre(16));
  EXPECT_THAT(bytes(CollectiveOp::kReduceScatter, 8, 4), ElementsAre(16));
  EXPECT_THAT(bytes(CollectiveOp::kAllToAll, 8, 8), ElementsAre(16));
  EXPECT_THAT(bytes(CollectiveOp::kCollectiveBroadcast, 8, 8), ElementsAre(32));
}

TEST_F(ShmemCollectiveThunkTest, AnAllToAllMayHaveAnArrayForEachMember) {
  const auto group = Make(CollectiveOp::kAllToAll, {3, 3}, {3, 3}).Group(Memory(), GlobalDeviceId(10));
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_TRUE(group->one_array_each);
  EXPECT_THAT(group->buffers.bytes, ElementsAre(12, 12));
}

TEST_F(ShmemCollectiveThunkTest, SizesThatDoNotFitAreAnError) {
  const auto group = Make(CollectiveOp::kAllGather, {4}, {9}).Group(Memory(), GlobalDeviceId(10));
  EXPECT_THAT(std::string(group.status().message()),
              HasSubstr("module/instruction: an operand of 16 bytes in 1 parts has a result of 36 in 2"));
}

TEST_F(ShmemCollectiveThunkTest, ADeviceOutsideOfABroadcastHasNoGroup) {
  ShmemCollective collective;
  collective.spec.op = CollectiveOp::kCollectiveBroadcast;
  collective.spec.groups = {{10, 11}, {0, 2}};
  const ShmemCollectiveThunk thunk = Wrap({{4, Slice(F32, 4), Slice(F32, 4), 0, 0}}, collective);
  const auto group = thunk.Group(Memory(), GlobalDeviceId(13));
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_THAT(group->group, IsEmpty());
  EXPECT_THAT(group->buffers.bytes, ElementsAre(16));
}

TEST_F(ShmemCollectiveThunkTest, ARaggedAllToAllHasRows) {
  std::vector<CollectiveThunk::Buffer> buffers;
  const ShapedSlice input = Slice(F32, 5, 3);   // 1
  const ShapedSlice output = Slice(F32, 7, 3);  // 2
  const ShapedSlice result = Slice(F32, 7, 3);  // 3
  buffers.push_back({15, input, input, 0, 0});
  buffers.push_back({21, output, result, 0, 0});
  for (int i = 0; i < 4; ++i) {  // 4 to 7
    const ShapedSlice numbers = Slice(S64, 6);
    buffers.push_back({6, numbers, numbers, 0, 0});
  }
  ShmemCollective collective;
  collective.spec.op = CollectiveOp::kRaggedAllToAll;
  collective.spec.groups = {{10, 11}, {0, 2}};
  const ShmemCollectiveThunk thunk = Wrap(std::move(buffers), collective);
  const auto group = thunk.Group(Memory(), GlobalDeviceId(11));
  ASSERT_TRUE(group.ok()) << group.status();
  const xla_shmem::gpu::RaggedRows& ragged = group->ragged;
  EXPECT_EQ(ragged.row_bytes, 12);
  EXPECT_EQ(ragged.input_rows, 5);
  EXPECT_EQ(ragged.output_rows, 7);
  EXPECT_EQ(ragged.slices, 3);
  EXPECT_THAT(Addresses({ragged.input}), ElementsAre(4096));
  const uint64_t* const numbers[] = {ragged.input_offsets, ragged.send_sizes, ragged.output_offsets,
                                     ragged.receive_sizes};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(reinterpret_cast<size_t>(numbers[i]), 4096 * (4 + i));
  EXPECT_THAT(Addresses(group->buffers.operands), ElementsAre(2 * 4096));
  EXPECT_EQ(reinterpret_cast<size_t>(group->buffers.results[0]), 3 * 4096);
  EXPECT_THAT(group->buffers.bytes, ElementsAre(84));
}

TEST_F(ShmemCollectiveThunkTest, APermuteHasItsSourceAndItsTarget) {
  ShmemCollective collective;
  collective.spec.op = CollectiveOp::kCollectivePermute;
  collective.spec.pairs = {{10, 11}, {11, 12}};
  const ShmemCollectiveThunk thunk = Wrap({{4, Slice(F32, 4), Slice(F32, 4), 0, 0}}, collective);
  const auto peers = [&](int device) {
    const auto permute = thunk.Permute(Memory(), GlobalDeviceId(device));
    EXPECT_TRUE(permute.ok()) << permute.status();
    EXPECT_THAT(permute->buffers.bytes, ElementsAre(16));
    return std::vector<int>{permute->source, permute->target};
  };
  EXPECT_THAT(peers(10), ElementsAre(-1, 1));
  EXPECT_THAT(peers(11), ElementsAre(0, 2));
  EXPECT_THAT(peers(12), ElementsAre(1, -1));
  EXPECT_THAT(peers(13), ElementsAre(-1, -1));
}

}  // namespace
}  // namespace xla::gpu
