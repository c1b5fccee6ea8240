#include "xla_patch/assigner/tuned_rule.h"

#include <doctest/doctest.h>

#include <limits>

#include "tests/assigner/specs.h"

namespace xla_shmem {
namespace {

constexpr ElementType kBf16 = ElementType::kBf16, kF32 = ElementType::kF32;
using test::AllReduce;
using test::MakeTopology;
using test::Permute;

constexpr int64_t kMiB = int64_t{1} << 20;

Options Tuned(std::vector<TuningRow> rows) {
  Options options;
  options.profile = Profile::kTuned;
  Result<TuningTable> table = TuningTable::Create(std::move(rows));
  REQUIRE_MESSAGE(table.ok(), table.message());
  options.tuning = *std::move(table);
  return options;
}

// All-reduce in groups of 2: NVSHMEM up to somewhere between 1 KiB and 1 MiB.
Options SmallOnNvshmem() {
  return Tuned({{CollectiveOp::kAllReduce, kF32, 2, 1024, {2.04, 1.9, 2.1}, {310, 306, 314}},
                {CollectiveOp::kAllReduce, kF32, 2, kMiB, {12345, 12325, 12365}, {700, 691, 709}}});
}

TEST_CASE("the faster backend is taken, with both times in the reason") {
  const Topology topology = MakeTopology(2, 1, 8);
  const Decision small = Decide(AllReduce({{0, 1}}, 1024, topology), topology, SmallOnNvshmem());
  CHECK(small.backend == Backend::kNvshmem);
  CHECK(small.rule == "tuned");
  CHECK(small.reason ==
        "the group of 2 within one NVLink domain each; all-reduce of 1.0 KiB: NVSHMEM 2.0 µs, DEFAULT 310 µs measured "
        "(f32, groups of 2)");
  const Decision large = Decide(AllReduce({{0, 1}}, kMiB, topology), topology, SmallOnNvshmem());
  CHECK(large.backend == Backend::kDefault);
  CHECK(large.rule == "tuned");
  CHECK(large.reason.find("NVSHMEM 12.3 ms, DEFAULT 700 µs measured") != std::string::npos);
}

TEST_CASE("a reason names values that were not measured exactly") {
  const Topology topology = MakeTopology(6, 1, 8);
  const auto reason = [&](CollectiveSpec spec) {
    const std::string text = Decide(spec, topology, SmallOnNvshmem()).reason;
    return text.substr(text.find("measured ("));
  };
  CHECK(reason(AllReduce({{0, 1}}, 2048, topology)) == "measured (f32, groups of 2, between 1.0 KiB and 1.0 MiB)");
  CHECK(reason(AllReduce({{0, 1, 2}}, 16, topology)) ==
        "measured (f32, groups of 2 for 3, at 1.0 KiB, the smallest size)");
  CollectiveSpec narrow = AllReduce({{0, 1}}, 64 * kMiB, topology);
  narrow.element_types = {kBf16, kF32};
  CHECK(reason(narrow) == "measured (f32 for bf16, groups of 2, at 1.0 MiB, the largest size)");
  narrow.element_types.clear();
  CHECK(reason(narrow).find("measured (f32 for type0") == 0);
}

TEST_CASE("the type that a permute moves makes no difference, and its ring is its group") {
  const Topology topology = MakeTopology(4, 1, 8);
  CollectiveSpec spec = Permute({{0, 1}, {1, 2}, {2, 3}, {3, 0}}, 4096, topology);
  spec.element_types = {kBf16};
  const Options options = Tuned({{CollectiveOp::kCollectivePermute, kF32, 2, 4096, {9, 9, 9}, {1, 1, 1}},
                                 {CollectiveOp::kCollectivePermute, kF32, 4, 4096, {1, 1, 1}, {9, 9, 9}}});
  const Decision decision = Decide(spec, topology, options);
  CHECK(decision.backend == Backend::kNvshmem);
  CHECK(decision.reason ==
        "all 4 pairs within one NVLink domain each; collective-permute of 4.0 KiB: NVSHMEM 1.0 µs, DEFAULT 9.0 µs "
        "measured (f32, groups of 4)");
}

TEST_CASE("a tie stays on DEFAULT, and its reason gives the uncertainty") {
  const Topology topology = MakeTopology(2, 1, 8);
  const Options options = Tuned({{CollectiveOp::kAllReduce, kF32, 2, 1024, {20, 18, 25.5}, {25, 21.5, 31}}});
  const Decision decision = Decide(AllReduce({{0, 1}}, 1024, topology), topology, options);
  CHECK(decision.backend == Backend::kDefault);
  CHECK(decision.rule == "tuned-tie");
  CHECK(decision.reason.find("(f32, groups of 2), which may be 18.0 µs to 25.5 µs and 21.5 µs to 31.0 µs") !=
        std::string::npos);
}

TEST_CASE("an op that was not measured stays on DEFAULT") {
  const Topology topology = MakeTopology(2, 1, 8);
  const Decision decision = Decide(Permute({{0, 1}}, 4, topology), topology, SmallOnNvshmem());
  CHECK(decision.backend == Backend::kDefault);
  CHECK(decision.rule == "tuned-unmeasured");
  CHECK(decision.reason == "collective-permute is not in the tuning table");
}

TEST_CASE("an op that the default backend does not run goes to NVSHMEM") {
  const Topology topology = MakeTopology(2, 1, 8);
  CollectiveSpec spec = AllReduce({{0, 1}}, 1024, topology);
  spec.op = CollectiveOp::kCollectiveBroadcast;
  const Options options = Tuned({{CollectiveOp::kCollectiveBroadcast,
                                  kF32,
                                  2,
                                  64,
                                  {5, 4, 6},
                                  {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity(),
                                   std::numeric_limits<double>::infinity()}}});
  const Decision decision = Decide(spec, topology, options);
  CHECK(decision.backend == Backend::kNvshmem);
  CHECK(decision.reason.find("NVSHMEM 5.0 µs, DEFAULT not run measured") != std::string::npos);
}

TEST_CASE("placement comes before measured times") {
  const Topology topology = MakeTopology(4, 1, 2);
  const Decision decision = Decide(AllReduce({{1, 2}}, 1024, topology), topology, SmallOnNvshmem());
  CHECK(decision.backend == Backend::kDefault);
  CHECK(decision.rule == "group-across-domains");
}

TEST_CASE("the threshold is ignored, a limit in XLA_SHMEM_OPS is not") {
  const Topology topology = MakeTopology(2, 1, 8);
  Options options = Tuned({{CollectiveOp::kAllReduce, kF32, 2, 1024, {1, 1, 1}, {9, 9, 9}}});
  options.threshold = 0;
  CHECK(Decide(AllReduce({{0, 1}}, 64 * kMiB, topology), topology, options).backend == Backend::kNvshmem);
  options.ops = {{CollectiveOp::kAllReduce, 4096}};
  CHECK(Decide(AllReduce({{0, 1}}, 4096, topology), topology, options).rule == "size");
  CHECK(Decide(AllReduce({{0, 1}}, 4095, topology), topology, options).rule == "tuned");
}

TEST_CASE("without a list every op is considered, with one only its own") {
  Options options = Tuned({});
  CollectiveSpec spec;
  spec.op = CollectiveOp::kAllToAll;
  CHECK(IsConsidered(spec, options));
  options.ops = {{CollectiveOp::kAllReduce, std::nullopt}};
  CHECK_FALSE(IsConsidered(spec, options));
}

// All-gathers of 1 KiB: XLA's choice takes 20 µs, NVSHMEM 10 µs, and one-sided as long as is given.
Options GathersOneSided(double us) {
  TuningRow row = {CollectiveOp::kAllGather, kF32, 4, 1024, {10, 9, 11}, {20, 19, 21}};
  row.ways = {{Way::kNcclSymmetric, {4, 4, 4}}, {Way::kOneSided, {us, us, us}}};
  Options options = Tuned({row});
  options.settable_ways |= BitOf(Way::kOneSided) | BitOf(Way::kNccl);
  return options;
}

CollectiveSpec Gather(const std::vector<std::vector<int64_t>>& groups, const Topology& topology) {
  CollectiveSpec spec = AllReduce(groups, 1024, topology);
  spec.op = CollectiveOp::kAllGather;
  spec.reduction = std::nullopt;
  return spec;
}

bool Says(const Decision& decision, const char* text) { return decision.reason.find(text) != std::string::npos; }

TEST_CASE("of the ways that can be set the fastest is taken, and a faster one that needs a flag is named") {
  const Topology topology = MakeTopology(4, 4, 4);
  const Decision taken = Decide(Gather({{0, 1, 2, 3}}, topology), topology, GathersOneSided(5));
  CHECK(taken.backend == Backend::kDefault);
  CHECK(taken.way == Way::kOneSided);
  CHECK(taken.rule == "tuned");
  CHECK(taken.reason ==
        "the group of 4 within one NVLink domain each; all-gather of 1.0 KiB: NVSHMEM 10.0 µs, one-sided 5.0 µs, "
        "DEFAULT 20.0 µs measured (f32, groups of 4); NCCL symmetric 4.0 µs, but only "
        "--xla_enable_nccl_symmetric_buffers_for_collectives=AllGather chooses it");
  CHECK(Decide(Gather({{0, 1, 2, 3}}, topology), topology, GathersOneSided(11)).backend == Backend::kNvshmem);
}

TEST_CASE("a way that is slower than XLA's choice, or as fast, is not taken") {
  const Topology topology = MakeTopology(4, 4, 4);
  Options options = GathersOneSided(20.5);
  options.ways = BitOf(Way::kOneSided);
  Decision decision = Decide(Gather({{0, 1, 2, 3}}, topology), topology, options);
  CHECK(decision.rule == "tuned-tie");
  CHECK_FALSE(decision.way.has_value());
  options = GathersOneSided(30);
  options.ways = BitOf(Way::kOneSided);
  decision = Decide(Gather({{0, 1, 2, 3}}, topology), topology, options);
  CHECK(decision.rule == "tuned");
  CHECK_FALSE(decision.way.has_value());
  CHECK_FALSE(Says(decision, "NCCL symmetric"));  // it is not listed
}

TEST_CASE("where one-sided transfers may hang or lose data they are refused, with the issue") {
  const Options options = GathersOneSided(5);
  Topology topology = MakeTopology(4, 2, 4);
  const Decision across = Decide(Gather({{0, 1, 2, 3}}, topology), topology, options);
  CHECK(across.backend == Backend::kNvshmem);
  CHECK(Says(across, "one-sided 5.0 µs, but between processes windows may differ and hang (openxla/xla issue 45406)"));
  CHECK(Says(across, "NVIDIA/nccl issue 2198"));
  topology = MakeTopology(4, 4, 4);
  const Decision pairs = Decide(Gather({{0, 1}, {2, 3}}, topology), topology, options);
  CHECK_FALSE(pairs.way.has_value());
  CHECK(Says(pairs, "one-sided 5.0 µs, but groups of two may hang (NVIDIA/nccl issue 2241)"));
}

TEST_CASE("NCCL can be chosen only where XLA would take its own kernel") {
  const Topology topology = MakeTopology(4, 1, 4);
  TuningRow row = {CollectiveOp::kAllReduce, kF32, 4, 1024, {30, 29, 31}, {20, 19, 21}};
  row.ways = {{Way::kNccl, {5, 5, 5}}};
  Options options = Tuned({row});
  CollectiveSpec spec = AllReduce({{0, 1, 2, 3}}, 1024, topology);
  spec.is_fused = true;
  CHECK(Says(Decide(spec, topology, options),
             "NCCL 5.0 µs, but only --xla_gpu_experimental_use_collective_kernels= chooses it"));
  options.settable_ways |= BitOf(Way::kNccl);
  CHECK(Decide(spec, topology, options).way == Way::kNccl);
  spec.is_fused = false;
  CHECK(Says(Decide(spec, topology, options), "NCCL 5.0 µs, but XLA does not run it by a kernel of its own"));
}

TEST_CASE("no profile chooses NVSHMEM if the backends do not list it") {
  const Topology topology = MakeTopology(2, 1, 8);
  Options options;
  options.ways = BitOf(Way::kOneSided);
  for (const Profile profile : {Profile::kUpstream, Profile::kDomain}) {
    options.profile = profile;
    const Decision decision = Decide(AllReduce({{0, 1}}, 1024, topology), topology, options);
    CHECK(decision.backend == Backend::kDefault);
    CHECK(decision.rule == "unlisted-backend");
  }
  Options tuned = SmallOnNvshmem();
  tuned.ways = BitOf(Way::kOneSided);
  CHECK(Decide(AllReduce({{0, 1}}, 1024, topology), topology, tuned).backend == Backend::kDefault);
}

}  // namespace
}  // namespace xla_shmem
