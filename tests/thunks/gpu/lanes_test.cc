#include "xla_patch/thunks/gpu/lanes.h"

#include <doctest/doctest.h>

#include <numeric>

#include "tests/thunks/gpu/gpu_job.h"
#include "tests/thunks/gpu/group_case.h"

namespace xla_shmem::testing {
namespace {

constexpr CollectiveOp kOps[] = {CollectiveOp::kAllReduce, CollectiveOp::kAllGather, CollectiveOp::kReduceScatter,
                                 CollectiveOp::kAllToAll, CollectiveOp::kCollectiveBroadcast};
constexpr Form kForms[] = {Form::kOverlapping, Form::kInLine, Form::kGraph};

TEST_CASE("Every collective moves what it says through the driver's symmetric memory") {
  for (const CollectiveOp op : kOps) {
    GroupCase test{op, {{0, 1, 2}, {4, 3}}, {ElementType::kF32, ElementType::kU8}, {1001, 33}};
    test.driver_heap = true;
    RunGroupCase(test);
  }
}

TEST_CASE("Every collective moves what it says, in every form, for buffers of any size") {
  for (const CollectiveOp op : kOps) {
    for (const Form form : kForms) {
      CAPTURE(OpName(op));
      CAPTURE(static_cast<int>(form));
      GroupCase test{op, {{0, 1, 2}}, {ElementType::kF32, ElementType::kU8}, {1001, 33}};
      test.form = form;
      RunGroupCase(test);
      // More than the slots of all lanes hold.
      test = {op, {{1, 0}}, {ElementType::kBf16}, {150001}};
      test.form = form;
      RunGroupCase(test);
    }
  }
}

TEST_CASE("A large all-reduce, two-shot, gives the bits of the CPU's reduction") {
  RunGroupCase({CollectiveOp::kAllReduce, {{2, 0, 1, 3}}, {ElementType::kBf16}, {600001}, /*in_place=*/true});
  RunGroupCase({CollectiveOp::kAllReduce, {{0, 1, 2}}, {ElementType::kF32, ElementType::kF32}, {400000, 70001}});
}

TEST_CASE("Operand and result may be one buffer") {
  RunGroupCase({CollectiveOp::kAllReduce, {{0, 1, 2}}, {ElementType::kF32, ElementType::kF16}, {1001, 33}, true});
  RunGroupCase({CollectiveOp::kAllToAll, {{0, 2, 1}}, {ElementType::kS32}, {30000}, true});
  RunGroupCase({CollectiveOp::kCollectiveBroadcast, {{0, 1, 2}}, {ElementType::kS8}, {5001}, true});
}

TEST_CASE("Combined all-reduces may mix types and hold empty operands") {
  RunGroupCase(
      {CollectiveOp::kAllReduce, {{0, 1}}, {ElementType::kF32, ElementType::kS8, ElementType::kF64}, {5, 0, 4099}});
}

TEST_CASE("A collective of more buffers than a launch takes becomes several launches") {
  GroupCase test{CollectiveOp::kAllReduce, {{0, 1}}, {}, {}};
  for (size_t i = 0; i < gpu::kMaxParts + 5; ++i) {
    test.types.push_back(ElementType::kF32);
    test.elements.push_back(1 + i % 7);
  }
  RunGroupCase(test);
}

TEST_CASE("Groups of any form work side by side, also a group of one") {
  for (const CollectiveOp op : kOps) {
    CAPTURE(OpName(op));
    RunGroupCase({op, {{0, 3}, {2, 1}, {4}}, {ElementType::kF32}, {2000}});
  }
}

TEST_CASE("An all-to-all may have an array for each member") {
  for (const Form form : kForms) {
    GroupCase test{
        CollectiveOp::kAllToAll, {{1, 2, 0}}, std::vector<ElementType>(3, ElementType::kF16), {777, 777, 777}};
    test.one_array_each = true;
    test.form = form;
    RunGroupCase(test);
  }
}

TEST_CASE("Little memory only makes it slower") {
  for (const CollectiveOp op : kOps) {
    CAPTURE(OpName(op));
    GroupCase test{op, {{0, 1, 2}}, {ElementType::kF32}, {30000}};
    test.kind = ReductionKind::kMax;
    test.lane_bytes = 12 << 10;
    RunGroupCase(test);
  }
}

TEST_CASE("A group may have the 72 GPUs of an NVL72 domain") {
  std::vector<int> group(72);
  std::iota(group.begin(), group.end(), 0);
  for (const CollectiveOp op : kOps) {
    CAPTURE(OpName(op));
    for (const size_t elements : {3, 700}) {  // in packets, and in several chunks
      GroupCase test{op, {group}, {ElementType::kF32}, {elements}};
      test.form = elements == 3 ? Form::kGraph : Form::kInLine;
      test.lane_bytes = 1 << 20;
      test.arena_bytes = 2 << 20;
      test.most_lanes = 1;
      RunGroupCase(test);
    }
  }
}

TEST_CASE("Bitwise, boolean and complex reductions") {
  for (const ReductionKind kind : {ReductionKind::kAnd, ReductionKind::kOr, ReductionKind::kXor}) {
    GroupCase test{CollectiveOp::kAllReduce, {{0, 1, 2}}, {ElementType::kU32, ElementType::kS8}, {1001, 77}};
    test.kind = kind;
    RunGroupCase(test);
  }
  GroupCase product{CollectiveOp::kReduceScatter, {{0, 1}}, {ElementType::kC64, ElementType::kC128}, {55, 3}};
  product.kind = ReductionKind::kProd;
  RunGroupCase(product);
}

TEST_CASE("A collective of a group without this PE is an error, and a broadcast without it gives zeros") {
  GpuJob job({});
  GpuJob::Pe& pe = job.pe(0);
  gpu::GroupArguments arguments;
  arguments.name = "module/op";
  arguments.tag = kTag;
  arguments.group = {1};
  const Status error = OnDevice(pe, [&] { return pe.transfers->StartGroup({1, 1}, arguments, pe.compute); });
  CHECK(error.message().find("PE 0 is not in its replica group") != std::string::npos);
  std::vector<char> operand(100, 1), result(100, 2);
  arguments.op = CollectiveOp::kCollectiveBroadcast;
  arguments.group = {};
  arguments.buffers = {{operand.data()}, {result.data()}, {100}};
  CHECK(OnDevice(pe, [&] { return pe.transfers->RunGroup(arguments, pe.compute); }).message() == "");
  REQUIRE(job.Synchronize());
  CHECK(result == std::vector<char>(100, 0));
}

TEST_CASE("A member that never comes ends the collective with an error that names it") {
  for (const bool in_line : {false, true}) {
    GpuJobOptions options;
    options.n_pes = 3;
    options.deadline = std::chrono::milliseconds(1500);
    GpuJob job(options);
    std::vector<std::vector<char>> operands(3, std::vector<char>(1000, 1)), results(3, std::vector<char>(1000, 2));
    for (const int number : {0, 2}) {
      GpuJob::Pe& pe = job.pe(number);
      gpu::GroupArguments arguments;
      arguments.name = "module/op";
      arguments.tag = kTag;
      arguments.group = {0, 1, 2};
      arguments.types = {ElementType::kF32};
      arguments.buffers = {{operands[number].data()}, {results[number].data()}, {1000}};
      OnDevice(pe, [&] {
        if (in_line) {
          CHECK(pe.transfers->RunGroup(arguments, pe.compute).message() == "");
        } else {
          CHECK(pe.transfers->StartGroup({1, 1}, arguments, pe.compute).message() == "");
          CHECK(pe.transfers->Finish({1, 1}, "module/op", pe.compute).message() == "");
        }
        return 0;
      });
    }
    for (const int number : {0, 2}) {
      REQUIRE(job.pe(number).cuda->Synchronize());
      CHECK(job.pe(number).cuda->trapped());
      const std::string reason = job.pe(number).watchdog->Check().message();
      CHECK(reason == "module/op on PE " + std::to_string(number) +
                          " has not finished; it waits for PE 1; gave up after the deadline (XLA_SHMEM_DEADLINE)");
      CHECK(results[number] == std::vector<char>(1000, 2));
    }
  }
}

TEST_CASE("A collective is one command in line and five in a pair, whatever the number of PEs and bytes") {
  for (const int n_pes : {2, 8}) {
    for (const size_t bytes : {size_t{4}, size_t{100000}}) {
      for (const CollectiveOp op : kOps) {
        CAPTURE(OpName(op));
        GpuJobOptions options;
        options.n_pes = n_pes;
        GpuJob job(options);
        std::vector<std::vector<char>> memory(n_pes, std::vector<char>(2 * n_pes * bytes));
        for (int number = 0; number < n_pes; ++number) {
          GpuJob::Pe& pe = job.pe(number);
          gpu::GroupArguments arguments;
          arguments.name = "module/op";
          arguments.tag = kTag;
          arguments.op = op;
          for (int member = 0; member < n_pes; ++member) arguments.group.push_back(member);
          arguments.types = {ElementType::kF32};
          char* const own = memory[number].data();
          arguments.buffers = {{own}, {own + n_pes * bytes}, {bytes}};
          const size_t before = pe.cuda->commands();
          OnDevice(pe, [&] {
            CHECK(pe.transfers->RunGroup(arguments, pe.compute).message() == "");
            CHECK(pe.cuda->commands() == before + 1);
            CHECK(pe.transfers->StartGroup({1, 1}, arguments, pe.compute).message() == "");
            CHECK(pe.transfers->Finish({1, 1}, "module/op", pe.compute).message() == "");
            return 0;
          });
          CHECK(pe.cuda->commands() == before + 6);
        }
        REQUIRE(job.Synchronize());
      }
    }
  }
}

TEST_CASE("The memory of the lanes follows from the number of PEs") {
  CHECK(gpu::LaneLayout::RecommendedBytes(8) <= size_t{84} << 20);
  CHECK(gpu::LaneLayout::RecommendedBytes(72) <= size_t{162} << 20);
  for (const int n_pes : {1, 2, 8, 72}) {
    const size_t recommended = gpu::LaneLayout::RecommendedBytes(n_pes);
    const Result<gpu::LaneLayout> whole = gpu::LaneLayout::Create(n_pes, recommended);
    REQUIRE(whole.ok());
    CHECK(whole->bytes() == recommended);
    CHECK(whole->lanes() == 32);
    CHECK(gpu::LaneLayout::Create(n_pes, recommended - 1)->bytes() < recommended);
  }
  for (const int lanes : {1, 10}) {
    const size_t recommended = gpu::LaneLayout::RecommendedBytes(8);
    CHECK(gpu::LaneLayout::Create(8, recommended, /*multimem=*/false, lanes)->lanes() == lanes);
  }
  CHECK(gpu::LaneLayout::Create(8, 4 << 10).status().message().find("raise XLA_SHMEM_HEAP_SIZE") != std::string::npos);
}

TEST_CASE("Two sets of lanes leave half of the multiprocessors of the smallest GPU") {
  CHECK(gpu::LaneLayout::MostLanes(132) == 32);
  CHECK(gpu::LaneLayout::MostLanes(108) == 27);
  CHECK(gpu::LaneLayout::MostLanes(40) == 10);
  CHECK(gpu::LaneLayout::MostLanes(3) == 1);
}

}  // namespace
}  // namespace xla_shmem::testing
