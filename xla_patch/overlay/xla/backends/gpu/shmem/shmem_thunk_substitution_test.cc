// From a module to thunks on NVSHMEM, with XLA's own thunks before and after their serialised form.
#include "xla/backends/gpu/shmem/shmem_thunk_substitution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "xla/backends/gpu/runtime/all_gather_thunk.h"
#include "xla/backends/gpu/runtime/all_reduce_thunk.h"
#include "xla/backends/gpu/runtime/all_to_all_thunk.h"
#include "xla/backends/gpu/runtime/async_thunk.h"
#include "xla/backends/gpu/runtime/collective_broadcast_thunk.h"
#include "xla/backends/gpu/runtime/collective_permute_thunk.h"
#include "xla/backends/gpu/runtime/collective_thunk.h"
#include "xla/backends/gpu/runtime/command.h"
#include "xla/backends/gpu/runtime/execution_stream_id.h"
#include "xla/backends/gpu/runtime/ragged_all_to_all_thunk.h"
#include "xla/backends/gpu/runtime/thunk.h"
#include "xla/backends/gpu/runtime/thunk.pb.h"
#include "xla/backends/gpu/runtime/thunk_proto_deserialization.h"
#include "xla/backends/gpu/shmem/shmem_collective_thunk.h"
#include "xla/backends/gpu/transforms/collectives/shmem/collective_backend_config.h"
#include "xla/backends/gpu/transforms/collectives/shmem/job_topology.h"
#include "xla/backends/gpu/transforms/collectives/shmem/test_modules.h"
#include "xla/ffi/attribute_map.h"
#include "xla/hlo/ir/hlo_casting_utils.h"
#include "xla/hlo/ir/hlo_instructions.h"
#include "xla/service/buffer_assignment.h"
#include "xla/service/hlo.pb.h"
#include "xla/shape_util.h"
#include "xla_patch/assigner/assigner.h"
#include "xla_patch/assigner/transport.h"
#include "xla_patch/hlo/proto/mlir_dictionary.h"
#include "xla_patch/hlo/rewrite/pass.h"
#include "xla_patch/nvshmem/gpu/nvrtc.h"

// No device code is compiled here.
const char xla_shmem::gpu::kKernelSource[] = "";

namespace xla::gpu {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

// Three collectives of one size. `left` stays on NCCL.
constexpr absl::string_view kCollectives = R"(
  reduced = f32[4] all-reduce(p), channel_id=1, to_apply=sum, replica_groups={{0,1}}, use_global_device_ids=true
  permuted = f32[4] collective-permute(reduced), channel_id=2, source_target_pairs={{0,1},{1,0}}
  ROOT left = f32[4] all-reduce(permuted), channel_id=3, to_apply=sum, replica_groups={{0,1}}, use_global_device_ids=true)";

constexpr absl::string_view kOtherNames[] = {"gathered", "scattered", "exchanged", "sent", "permuted", "ragged"};

class ShmemThunkSubstitutionTest : public ::testing::Test {
 protected:
  ShmemThunkSubstitutionTest() {
    Use(kCollectives);
    allocations_.emplace_back(/*index=*/0, /*size=*/32, /*color=*/0);
    Choose("reduced");
    Choose("permuted");
  }

  // A module with these lines for devices 0 and 1.
  void Use(absl::string_view lines) {
    module_ = ParseEntry(lines, /*devices=*/2);
    PlaceOn({{0}, {1}}, module_.get());
  }

  void Choose(absl::string_view name) {
    ASSERT_TRUE(SetCollectiveBackend(xla_shmem::Backend::kNvshmem, Find(*module_, name)).ok());
  }

  Thunk::ThunkInfo Info(absl::string_view name) {
    return Thunk::ThunkInfo::WithProfileAnnotation(Find(*module_, name), ThunkId(++last_id_));
  }

  std::vector<CollectiveThunk::Buffer> Buffers(size_t number = 1) {
    const Shape shape = ShapeUtil::MakeShapeWithDenseLayout(F32, {4}, {0});
    return std::vector<CollectiveThunk::Buffer>(
        number, {4, {{&allocations_[0], 0, 16}, shape}, {{&allocations_[0], 16, 16}, shape}, 0, 0});
  }

  // What XLA emits: the permute on a stream of its own, the all-reduces one after the other.
  ThunkSequence Emitted() {
    ThunkSequence thunks;
    for (const absl::string_view name : {"reduced", "left"}) {
      const auto* all_reduce = Cast<HloAllReduceInstruction>(Find(*module_, name));
      thunks.push_back(std::make_unique<AllReduceThunk>(Info(name), GetAllReduceConfigInst(all_reduce), Buffers()));
    }
    thunks.push_back(Permuted());
    return thunks;
  }

  // XLA 0.10.2 serialises only an all-reduce with a kernel, so there is none here.
  ThunkSequence EmittedOthers() {
    ThunkSequence thunks;
    thunks.push_back(std::make_unique<AllGatherThunk>(
        Info("gathered"), Cast<HloAllGatherInstruction>(Find(*module_, "gathered")), Buffers()));
    thunks.push_back(std::make_unique<ReduceScatterThunk>(
        Info("scattered"), Cast<HloReduceScatterInstruction>(Find(*module_, "scattered")), Buffers()));
    thunks.push_back(std::make_unique<AllToAllThunk>(Info("exchanged"),
                                                     Cast<HloAllToAllInstruction>(Find(*module_, "exchanged")),
                                                     Buffers(), /*p2p_memcpy_enabled=*/false));
    thunks.push_back(std::make_unique<CollectiveBroadcastThunk>(
        Info("sent"), Cast<HloCollectiveBroadcastInstruction>(Find(*module_, "sent")), Buffers()));
    thunks.push_back(std::make_unique<RaggedAllToAllThunk>(Info("ragged"),
                                                           Cast<HloRaggedAllToAllInstruction>(Find(*module_, "ragged")),
                                                           Buffers(6), /*p2p_memcpy_enabled=*/false));
    thunks.push_back(Permuted());
    return thunks;
  }

  std::unique_ptr<Thunk> Permuted() {
    const auto* permute = Cast<HloCollectivePermuteInstruction>(Find(*module_, "permuted"));
    ThunkSequence nested = ThunkSequence::Of(std::make_unique<CollectivePermuteThunk>(
        Info("permuted"), permute, /*replica_count=*/1, /*partition_count=*/2, Buffers(),
        DebugOptions::COLLECTIVES_PRIVATE_MEMORY, /*connected_components_enabled=*/false));
    return std::make_unique<AsyncStartThunk>(Info("permuted"), CommunicationStreamId(1), std::move(nested));
  }

  // Name and kind of each collective, in the order of `Walk`.
  static std::vector<std::string> Kinds(ThunkSequence& thunks) {
    std::vector<std::string> kinds;
    for (std::unique_ptr<Thunk>& top : thunks) {
      top->Walk([&](Thunk* thunk) {
        if (!thunk->IsCollective()) return;
        const bool is_ours = dynamic_cast<ShmemCollectiveThunk*>(thunk) != nullptr;
        kinds.push_back(thunk->thunk_info().profile_annotation + (is_ours ? " NVSHMEM" : " NCCL"));
      });
    }
    return kinds;
  }

  std::unique_ptr<HloModule> module_;
  std::vector<BufferAllocation> allocations_;
  int last_id_ = 0;
};

TEST_F(ShmemThunkSubstitutionTest, TheThunksOfTheChosenInstructionsAreReplacedAlsoNestedOnes) {
  ThunkSequence thunks = Emitted();
  ASSERT_TRUE(UseShmemThunks(module_.get(), &thunks).ok());
  EXPECT_THAT(Kinds(thunks), ElementsAre("reduced NVSHMEM", "left NCCL", "permuted NVSHMEM"));
  EXPECT_EQ(thunks[0]->kind(), Thunk::kAllReduce);
  EXPECT_EQ(thunks[0]->thunk_info().thunk_id, ThunkId(1));
  // XLA records it into command buffers.
  EXPECT_NE(dynamic_cast<Command*>(thunks[0].get()), nullptr);
}

TEST_F(ShmemThunkSubstitutionTest, WithoutAModuleNothingChanges) {
  ThunkSequence thunks = Emitted();
  ASSERT_TRUE(UseShmemThunks(nullptr, &thunks).ok());
  EXPECT_THAT(Kinds(thunks), ElementsAre("reduced NCCL", "left NCCL", "permuted NCCL"));
}

// One collective of each other kind.
constexpr absl::string_view kOthers = R"(
  n = s64[2] constant({0, 0})
  gathered = f32[8] all-gather(p), channel_id=1, dimensions={0}, replica_groups={{0,1}}, use_global_device_ids=true
  scattered = f32[4] reduce-scatter(gathered), channel_id=2, dimensions={0}, to_apply=sum, replica_groups={{0,1}}, use_global_device_ids=true
  exchanged = f32[4] all-to-all(scattered), channel_id=3, dimensions={0}, replica_groups={{0,1}}
  sent = f32[4] collective-broadcast(exchanged), channel_id=4, replica_groups={{1,0}}
  permuted = f32[4] collective-permute(sent), channel_id=5, source_target_pairs={{0,1},{1,0}}
  ROOT ragged = f32[4] ragged-all-to-all(permuted, q, n, n, n, n), channel_id=6, replica_groups={{0,1}})";

TEST_F(ShmemThunkSubstitutionTest, ALoadedExecutableGetsTheSameThunks) {
  Use(kOthers);
  for (const absl::string_view name : kOtherNames) Choose(name);
  ThunkSequence thunks = EmittedOthers();
  EXPECT_THAT(Kinds(thunks), Each(EndsWith(" NCCL")));
  ASSERT_TRUE(UseShmemThunks(module_.get(), &thunks).ok());
  const std::vector<std::string> ours = Kinds(thunks);
  EXPECT_THAT(ours, ElementsAre("gathered NVSHMEM", "scattered NVSHMEM", "exchanged NVSHMEM", "sent NVSHMEM",
                                "ragged NVSHMEM", "permuted NVSHMEM"));
  EXPECT_EQ(thunks[3]->kind(), Thunk::kCollectiveBroadcast);
  EXPECT_EQ(thunks[4]->kind(), Thunk::kAllToAll);  // XLA's pass for graphs would take it for its RaggedAllToAllThunk
  ThunkSequenceProto serialised;
  for (const std::unique_ptr<Thunk>& thunk : thunks) {
    const auto proto = thunk->ToProto();
    ASSERT_TRUE(proto.ok()) << proto.status();
    *serialised.add_thunks() = *proto;
  }
  auto loaded = DeserializeThunkSequenceProto(serialised, allocations_, module_.get(), "CUDA", {});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(Kinds(*loaded), Each(EndsWith(" NCCL")));
  ASSERT_TRUE(UseShmemThunks(module_.get(), &*loaded).ok());
  EXPECT_EQ(Kinds(*loaded), ours);
}

// As MlirDictionary writes it.
std::string Text(const std::string& name, const ffi::Attribute& attribute) {
  xla_shmem::hlo::MlirDictionary dictionary;
  if (const auto* number = std::get_if<ffi::Scalar>(&attribute.AsVariant())) {
    dictionary.AddInt(name.c_str(), std::get<int64_t>(number->AsVariant()));
  } else if (const auto* text = std::get_if<std::string>(&attribute.AsVariant())) {
    dictionary.AddString(name.c_str(), *text);
  } else {
    const auto& numbers = std::get<ffi::Array>(attribute.AsVariant());
    dictionary.AddInts(name.c_str(), std::get<std::vector<int64_t>>(numbers.AsVariant()));
  }
  const std::string braced = dictionary.Text();
  return braced.substr(1, braced.size() - 2);
}

// The custom calls that the plugin puts in the place of all collectives of the module: target and arguments, by name.
std::map<std::string, std::pair<std::string, std::string>> CallsOfThePlugin(const HloModule& module) {
  xla_shmem::PassOptions options;
  options.topology = *UniformTopology(2, 1, 2);
  options.transport = xla_shmem::GpuTransport({{0, 0}, {1, 0}});
  options.lowering = xla_shmem::Lowering::kGpu;
  for (const xla_shmem::CollectiveOpInfo& info : xla_shmem::kCollectiveOps) options.assign.ops.push_back({info.op, {}});
  const auto passed = xla_shmem::RunPass(module.ToProto().SerializeAsString(), options);
  EXPECT_TRUE(passed.ok()) << passed.message();
  HloModuleProto proto;
  EXPECT_TRUE(proto.ParseFromString(passed->module));
  std::map<std::string, std::pair<std::string, std::string>> calls;
  for (const HloComputationProto& computation : proto.computations()) {
    for (const HloInstructionProto& instruction : computation.instructions()) {
      if (instruction.opcode() != "custom-call") continue;
      calls[instruction.name()] = {instruction.custom_call_target(), instruction.backend_config()};
    }
  }
  return calls;
}

TEST_F(ShmemThunkSubstitutionTest, AThunkRunsTheCallThatThePluginPutsInItsPlace) {
  Use(kOthers);
  for (const absl::string_view name : kOtherNames) Choose(name);
  ThunkSequence thunks = EmittedOthers();
  ASSERT_TRUE(UseShmemThunks(module_.get(), &thunks).ok());
  const auto calls = CallsOfThePlugin(*module_);
  EXPECT_EQ(calls.size(), std::size(kOtherNames));
  for (std::unique_ptr<Thunk>& top : thunks) {
    top->Walk([&](Thunk* thunk) {
      const auto* ours = dynamic_cast<ShmemCollectiveThunk*>(thunk);
      if (ours == nullptr) return;
      const auto& [target, arguments] = calls.at(thunk->thunk_info().profile_annotation);
      EXPECT_EQ(ours->call().target_name(), target);
      const auto proto = ours->call().ToProto();
      const auto attributes = ffi::AttributesMap::FromProto(proto->custom_call_thunk().attributes());
      EXPECT_EQ(attributes->size(), std::count(arguments.begin(), arguments.end(), '=') + 1) << arguments;
      for (const auto& [name, value] : *attributes) {
        if (name == "op" || name == "messages") continue;  // equal in processes that have loaded the module
        EXPECT_THAT(arguments, HasSubstr(Text(name, value)));
      }
    });
  }
}

TEST_F(ShmemThunkSubstitutionTest, WithoutADeviceAssignmentNothingChanges) {
  module_ = ParseEntry(kCollectives, /*devices=*/2);
  Choose("reduced");
  ThunkSequence thunks = Emitted();
  ASSERT_TRUE(UseShmemThunks(module_.get(), &thunks).ok());
  EXPECT_THAT(Kinds(thunks), Each(EndsWith(" NCCL")));
}

TEST_F(ShmemThunkSubstitutionTest, AnUnsupportedReductionStaysOnNccl) {
  Use(R"(
  r = f4e2m1fn[4] convert(p)
  ROOT reduced = f4e2m1fn[4] all-reduce(r), channel_id=1, to_apply=sum, replica_groups={{0,1}}, use_global_device_ids=true)");
  Choose("reduced");
  const auto* all_reduce = Cast<HloAllReduceInstruction>(Find(*module_, "reduced"));
  ThunkSequence thunks = ThunkSequence::Of(
      std::make_unique<AllReduceThunk>(Info("reduced"), GetAllReduceConfigInst(all_reduce), Buffers()));
  ASSERT_TRUE(UseShmemThunks(module_.get(), &thunks).ok());
  EXPECT_THAT(Kinds(thunks), ElementsAre("reduced NCCL"));
}

TEST_F(ShmemThunkSubstitutionTest, AThunkNeedsADeviceAssignment) {
  ThunkSequence thunks = Emitted();
  ASSERT_TRUE(UseShmemThunks(module_.get(), &thunks).ok());
  const absl::Status unplaced = thunks[0]->Prepare({});
  EXPECT_EQ(unplaced.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unplaced.message()), HasSubstr("reduced: a collective on NVSHMEM needs a device assignment"));
}

}  // namespace
}  // namespace xla::gpu
