// The kernels switch_reduction and switch_gather on doubled multicast memory.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/doubles/multicast.h"
#include "tests/doubles/nvshmem_host_api.h"
#include "tests/thunks/gpu/gpu_job.h"
#include "tests/thunks/gpu/group_case.h"
#include "xla_patch/nvshmem/gpu/reduction_kernels.h"

namespace xla_shmem::testing {
namespace {

// Multimem loads and stores of a case.
nvshmem_double::MulticastCounts RunInSwitch(GroupCase test) {
  test.multimem = true;
  const nvshmem_double::MulticastCounts before = nvshmem_double::CountsOfMulticast();
  RunGroupCase(test);
  const nvshmem_double::MulticastCounts after = nvshmem_double::CountsOfMulticast();
  return {after.loads - before.loads, after.stores - before.stores};
}

constexpr size_t kRounds = 3;  // of RunGroupCase

TEST_CASE("All-reduces of all PEs are reduced once and stored to all, in every form") {
  for (const Form form : {Form::kOverlapping, Form::kInLine, Form::kGraph}) {
    CAPTURE(static_cast<int>(form));
    GroupCase test{CollectiveOp::kAllReduce, {{2, 0, 1}}, {ElementType::kF32}, {1001}};
    test.form = form;
    const size_t runs = form == Form::kGraph ? 20 : kRounds;
    const nvshmem_double::MulticastCounts counts = RunInSwitch(test);
    CHECK(counts.loads == runs * ((4 * 1001 + 15) / 16));  // each pack by one PE
    CHECK(counts.stores == counts.loads);
  }
  // More than the staging memory of all lanes holds.
  CHECK(RunInSwitch({CollectiveOp::kAllReduce, {{0, 1}}, {ElementType::kBf16}, {150001}, /*in_place=*/true}).stores >
        0);
  RunInSwitch({CollectiveOp::kAllReduce, {{3, 0, 1, 2}}, {ElementType::kF16, ElementType::kF16}, {70001, 3}});
}

TEST_CASE("Reduce-scatters of all PEs are reduced in the switch and stored by nobody else") {
  for (const Form form : {Form::kOverlapping, Form::kInLine, Form::kGraph}) {
    GroupCase test{CollectiveOp::kReduceScatter, {{1, 2, 0}}, {ElementType::kF32, ElementType::kF32}, {1001, 7}};
    test.form = form;
    const nvshmem_double::MulticastCounts counts = RunInSwitch(test);
    CHECK(counts.loads > 0);
    CHECK(counts.stores == 0);
  }
  RunInSwitch({CollectiveOp::kReduceScatter, {{0, 1}}, {ElementType::kS32}, {60001}});
}

TEST_CASE("All-gathers of all of four PEs are stored once to all, in every form") {
  constexpr size_t kPacks = (4 * 1001 + 15) / 16 + (77 + 15) / 16;
  for (const Form form : {Form::kOverlapping, Form::kInLine, Form::kGraph}) {
    CAPTURE(static_cast<int>(form));
    GroupCase test{CollectiveOp::kAllGather, {{2, 0, 3, 1}}, {ElementType::kF32, ElementType::kS8}, {1001, 77}};
    test.form = form;
    const nvshmem_double::MulticastCounts counts = RunInSwitch(test);
    CHECK(counts.stores == (form == Form::kGraph ? 20 : kRounds) * 4 * kPacks);  // each pack by one PE
    CHECK(counts.loads == 0);
  }
  // More than the staging memory of all lanes holds, and what is no multiple of 16 at odd addresses.
  CHECK(RunInSwitch({CollectiveOp::kAllGather, {{0, 1, 2, 3}}, {ElementType::kBf16}, {150001}}).stores > 0);
  CHECK(RunInSwitch({CollectiveOp::kAllGather, {{0, 1, 2, 3}}, {ElementType::kS8}, {15003}}).stores > 0);
  // Packets, and so few members that the switch would send more than NVLink.
  CHECK(RunInSwitch({CollectiveOp::kAllGather, {{0, 1, 2, 3}}, {ElementType::kF32}, {8}}).stores == 0);
  CHECK(RunInSwitch({CollectiveOp::kAllGather, {{0, 1, 2}}, {ElementType::kF32}, {1001}}).stores == 0);
  CHECK(RunInSwitch({CollectiveOp::kAllGather, {{0, 1}, {2, 3}}, {ElementType::kF32}, {1001}}).stores == 0);
}

TEST_CASE("Every row of the table computes what the CPU path computes") {
  int rows = 0;
  for (int number = 1; number <= static_cast<int>(ElementType::kBuffer); ++number) {
    const auto type = static_cast<ElementType>(number);
    for (const ReductionKind kind : kReductionKinds) {
      const auto reduction = gpu::FindKernelReduction(type, kind);
      // Sums of f64 depend on the order; random bytes are no predicates, and NaNs of 8 bits have no defined bits.
      if (!reduction.has_value() || reduction->elements == gpu::kF64 || type == ElementType::kPred) continue;
      if (reduction->elements >= gpu::kF8E5M2) {
        CHECK_FALSE(gpu::IsInSwitch(*reduction));
        continue;
      }
      CAPTURE(ElementTypeName(type));
      CAPTURE(ReductionName(kind));
      GroupCase test{CollectiveOp::kAllReduce, {{0, 1, 2}}, {type}, {333}};
      test.kind = kind;
      const bool in_switch = gpu::IsInSwitch(*reduction);
      CHECK((RunInSwitch(test).loads > 0) == in_switch);
      rows += in_switch ? 1 : 0;
    }
  }
  // Sums: f32, f16, bf16, c64, four integers. Min and max: four integers. Bits: eight integers by three kinds.
  CHECK(rows == 8 + 8 + 24);
  CHECK(gpu::IsInSwitch({gpu::kF64, ReductionKind::kSum}));
  CHECK_FALSE(gpu::IsInSwitch({gpu::kF64, ReductionKind::kMax}));
  CHECK_FALSE(gpu::IsInSwitch({gpu::kBf16, ReductionKind::kMax}));
}

TEST_CASE("Groups of some PEs and other collectives use the kernel for GPUs without multicast memory") {
  for (const CollectiveOp op : {CollectiveOp::kAllReduce, CollectiveOp::kReduceScatter}) {
    CHECK(RunInSwitch({op, {{0, 3}, {2, 1}}, {ElementType::kF32}, {2000}}).loads == 0);
    CHECK(RunInSwitch({op, {{0, 2, 1}, {3}}, {ElementType::kF32}, {2000}}).loads == 0);
  }
  for (const CollectiveOp op :
       {CollectiveOp::kAllGather, CollectiveOp::kAllToAll, CollectiveOp::kCollectiveBroadcast}) {
    CHECK(RunInSwitch({op, {{0, 1, 2}}, {ElementType::kF32}, {2000}}).stores == 0);
  }
}

TEST_CASE("Operands of which the switch has only some become several launches") {
  const std::vector<ElementType> types = {ElementType::kF32, ElementType::kS8, ElementType::kF64, ElementType::kBf16};
  GroupCase test{CollectiveOp::kAllReduce, {{0, 1}}, types, {500, 77, 0, 9000}};
  CHECK(RunInSwitch(test).loads > 0);
}

// Two PEs with one lane, through which operands of int32 go in many chunks.
struct OneLane {
  static constexpr size_t kChunks = 7;  // more than places
  GpuJob job = MakeJob();
  const gpu::LaneLayout& layout = job.pe(0).lanes->layout();
  size_t of_member = kChunks * layout.staged_bytes();
  std::vector<std::vector<int32_t>> operands{2, std::vector<int32_t>(2 * of_member / sizeof(int32_t))};
  std::vector<std::vector<int32_t>> results = operands;

  static GpuJob MakeJob() {
    GpuJobOptions options;
    options.multimem = true;
    options.most_lanes = 1;
    options.lane_bytes = 64 << 10;
    return GpuJob(options);
  }
  void Run(int number, CollectiveOp op) {
    for (size_t i = 0; i < operands[number].size(); ++i) operands[number][i] = static_cast<int32_t>(i + 1);
    gpu::GroupArguments arguments;
    arguments.name = "module/op";
    arguments.tag = kTag;
    arguments.types = {ElementType::kS32};
    arguments.op = op;
    arguments.group = {0, 1};
    arguments.buffers = {{reinterpret_cast<const char*>(operands[number].data())},
                         {reinterpret_cast<char*>(results[number].data())},
                         {op == CollectiveOp::kAllReduce ? 2 * of_member : of_member}};
    nvshmem_double::BindPe(number);
    GpuJob::Pe& pe = job.pe(number);
    const gpu::ScopedContext context(*pe.device);
    CHECK(pe.transfers->RunGroup(arguments, pe.compute).message() == "");
  }
  // What PE 0 has staged for a member in a place, at its start, while its kernel writes.
  __attribute__((no_sanitize("thread"))) int32_t Staged(size_t place, size_t member) {
    const size_t at = layout.Staging(gpu::LaneUse::kInLine) + (2 * place + member) * layout.staged_bytes();
    return __atomic_load_n(reinterpret_cast<int32_t*>(job.lane_memory(0) + at), __ATOMIC_RELAXED);
  }
  int32_t First(size_t chunk, size_t member) const {
    return operands[0][(member * of_member + chunk * layout.staged_bytes()) / sizeof(int32_t)];
  }
  unsigned Posted(int pe) {
    const char* const sent = job.lane_memory(pe) + layout.Sent(gpu::LaneUse::kInLine);
    return gpu::NumberOfWord(reinterpret_cast<const gpu::Word*>(sent)[1 - pe]);
  }
};

TEST_CASE("A lane stages the next chunk while it waits for messages about the one before, and no more") {
  for (const CollectiveOp op : {CollectiveOp::kAllReduce, CollectiveOp::kReduceScatter}) {
    OneLane pes;
    pes.Run(0, op);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (pes.Staged(1, 1) != pes.First(1, 1) && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (size_t member = 0; member < 2; ++member) {
      CHECK(pes.Staged(0, member) == pes.First(0, member));
      CHECK(pes.Staged(1, member) == pes.First(1, member));
      CHECK(pes.Staged(2, member) == 0);
    }
    pes.Run(1, op);
    REQUIRE(pes.job.Synchronize());
    // One message a chunk, and one for the last one's results.
    for (int pe = 0; pe < 2; ++pe) {
      CHECK(pes.Posted(pe) == OneLane::kChunks + 1);
      const size_t first = op == CollectiveOp::kReduceScatter && pe == 1 ? pes.of_member / sizeof(int32_t) : 0;
      const size_t count = (op == CollectiveOp::kAllReduce ? 2 : 1) * pes.of_member / sizeof(int32_t);
      size_t wrong = 0;
      for (size_t i = 0; i < count; ++i) wrong += pes.results[pe][i] != 2 * pes.operands[0][first + i];
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("Little memory only makes it slower") {
  GroupCase test{CollectiveOp::kAllReduce, {{0, 1, 2}}, {ElementType::kF32}, {30000}};
  test.lane_bytes = 16 << 10;
  RunInSwitch(test);
  test.op = CollectiveOp::kReduceScatter;
  RunInSwitch(test);
  test.op = CollectiveOp::kAllGather;
  test.groups = {{0, 1, 2, 3}};
  test.lane_bytes = 32 << 10;
  CHECK(RunInSwitch(test).stores > 0);
}

// PEs run operations of both kernels, over all PEs and over some, without waiting in between: the next one may begin
// while a peer still reads.
TEST_CASE("Operations in the switch and beside it follow one another, and sums of any floats are equal on all PEs") {
  constexpr int kPes = 4, kOperations = 40;
  constexpr size_t kElements = 3000;
  GpuJobOptions options;
  options.n_pes = kPes;
  options.multimem = true;
  GpuJob job(options);
  std::mt19937 random(11);
  std::vector<std::vector<float>> operands(kPes, std::vector<float>(kElements));
  for (auto& operand : operands) {
    for (float& value : operand) value = std::ldexp(static_cast<float>(random()), static_cast<int>(random() % 40) - 50);
  }
  using Results = std::vector<std::vector<float>>;
  std::vector<Results> results(kPes, Results(kOperations, std::vector<float>(kElements)));
  std::vector<std::thread> hosts;
  for (int number = 0; number < kPes; ++number) {
    hosts.emplace_back([&, number] {
      nvshmem_double::BindPe(number);
      GpuJob::Pe& pe = job.pe(number);
      const gpu::ScopedContext context(*pe.device);
      for (int i = 0; i < kOperations; ++i) {
        gpu::GroupArguments arguments;
        arguments.name = "module/op";
        arguments.tag = kTag + i;
        arguments.types = {ElementType::kF32};
        arguments.op = i % 3 == 0   ? CollectiveOp::kAllReduce
                       : i % 3 == 1 ? CollectiveOp::kReduceScatter
                                    : CollectiveOp::kAllGather;
        arguments.group = {0, 1, 2, 3};
        if (i % 5 == 4) arguments.group = {number % 2, number % 2 + 2};
        const size_t bytes = 4 * kElements / (i % 3 == 0 ? 1 : kPes);
        arguments.buffers = {{reinterpret_cast<const char*>(operands[number].data())},
                             {reinterpret_cast<char*>(results[number][i].data())},
                             {bytes}};
        CHECK(pe.transfers->RunGroup(arguments, pe.compute).message() == "");
      }
    });
  }
  for (std::thread& host : hosts) host.join();
  REQUIRE(job.Synchronize());
  for (int i = 0; i < kOperations; ++i) {
    CAPTURE(i);
    const bool scatters = i % 3 == 1, gathers = i % 3 == 2, some = i % 5 == 4;
    for (int number = 0; number < kPes; ++number) {
      const std::vector<float>& result = results[number][i];
      if (!scatters) CHECK(result == results[some ? number % 2 : 0][i]);
      const size_t members = some ? 2 : kPes, part = kElements / kPes;
      const auto operand_of = [&](size_t member) { return operands[some ? number % 2 + 2 * member : member].begin(); };
      if (gathers) {
        for (size_t member = 0; member < members; ++member) {
          CHECK(std::equal(operand_of(member), operand_of(member) + part, result.begin() + member * part));
        }
        continue;
      }
      const size_t first = scatters ? part * (some ? number / 2 : number) : 0;
      for (size_t e = 0; e < (scatters ? part : kElements); ++e) {
        double exact = 0, largest = 0;
        for (size_t member = 0; member < members; ++member) {
          const float value = operand_of(member)[first + e];
          exact += value;
          largest += std::abs(value);
        }
        if (std::abs(result[e] - exact) > largest * 1e-6) FAIL("element " << e << " of PE " << number);
      }
    }
  }
}

// Runs `body` in a process of its own; returns what it wrote to stderr, "" unless it was ended by abort.
template <typename Body>
std::string LastWords(Body body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    signal(SIGABRT, SIG_DFL);
    body();
    _exit(0);
  }
  close(ends[1]);
  std::string words;
  char buffer[256];
  for (ssize_t got = 0; (got = read(ends[0], buffer, sizeof(buffer))) > 0;) words.append(buffer, got);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? words : "";
}

TEST_CASE("An ordinary load or store at a multicast address ends the process with a sentence") {
  GpuJob job({});
  char* const address = nvshmem_double::MulticastAddress(64);
  const auto words = "an ordinary load or store at a multicast address, which only multimem instructions may use";
  CHECK(LastWords([&] { *static_cast<volatile char*>(address) = 1; }).find(words) != std::string::npos);
  CHECK(LastWords([&] { static_cast<void>(*static_cast<volatile char*>(address)); }).find(words) != std::string::npos);
}

TEST_CASE("A multimem instruction at an ordinary or misaligned address ends the process with a sentence") {
  GpuJob job({});
  char ordinary[16];
  for (const char* const address : {static_cast<char*>(ordinary), nvshmem_double::MulticastAddress(8)}) {
    const std::string words = LastWords([&] { nvshmem_double::MemberAddresses(address, 16); });
    CHECK(words.find("which is no multicast address for it") != std::string::npos);
  }
}

TEST_CASE("The staging memory of reductions in the switch is counted") {
  for (const int n_pes : {2, 8}) {
    const size_t recommended = gpu::LaneLayout::RecommendedBytes(n_pes, /*multimem=*/true);
    const Result<gpu::LaneLayout> layout = gpu::LaneLayout::Create(n_pes, recommended, /*multimem=*/true);
    REQUIRE(layout.ok());
    CHECK(layout->bytes() == recommended);
    const size_t staging = size_t{2} * layout->lanes() * n_pes * layout->slot_bytes();
    CHECK(recommended == gpu::LaneLayout::RecommendedBytes(n_pes) + staging);
    CHECK(layout->Staging(gpu::LaneUse::kInLine) + staging / 2 == layout->Packets(gpu::LaneUse::kInLine));
  }
}

}  // namespace
}  // namespace xla_shmem::testing
