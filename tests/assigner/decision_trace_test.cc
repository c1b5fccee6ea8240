#include "xla_patch/assigner/decision_trace.h"

#include <doctest/doctest.h>

#include "tests/assigner/specs.h"
#include "xla_patch/assigner/record.h"

namespace xla_shmem {
namespace {

using test::AllReduce;
using test::MakeTopology;
using test::Permute;

struct Settled {
  CollectiveRecord record;
  Trail trail;
};

Settled SettleWithTrail(const CollectiveSpec& spec, const Topology& topology, const Options& options,
                        const std::string& obstacle = "") {
  Settled settled;
  settled.record = DescribeSpec(spec);
  Settle(spec, topology, options, CpuTransport(std::nullopt), obstacle, &settled.record, &settled.trail);
  CollectiveRecord without = DescribeSpec(spec);
  Settle(spec, topology, options, CpuTransport(std::nullopt), obstacle, &without);
  CHECK(settled.record.backend == without.backend);  // who looks changes nothing
  CHECK(settled.record.rule == without.rule);
  CHECK(settled.record.reason == without.reason);
  CHECK(settled.record.veto == without.veto);
  return settled;
}

const RuleStep& Step(const Trail& trail, const std::string& rule) {
  for (const RuleStep& step : trail) {
    if (step.rule == rule) {
      return step;
    }
  }
  FAIL("no rule " << rule);
  return trail[0];
}

// What the last rule that names a backend says.
std::string LastBackend(const Trail& trail) {
  std::string last;
  for (const RuleStep& step : trail) {
    if (step.verdict == Verdict::kDefault || step.verdict == Verdict::kNvshmem) {
      last = VerdictName(step.verdict);
    }
  }
  return last;
}

TEST_CASE("rules behind the one that settles are not asked, and the size is") {
  const Topology topology = MakeTopology(4, 1, 4);
  const Trail trail = SettleWithTrail(AllReduce({{0, 1}}, 4096, topology), topology, Options()).trail;
  CHECK(Step(trail, "single-device").verdict == Verdict::kNvshmem);
  CHECK(Step(trail, "single-device").saw == "one device per process (4 processes)");
  CHECK(Step(trail, "single-partition").verdict == Verdict::kNotAsked);
  CHECK(Step(trail, "single-partition").saw.empty());
  CHECK(Step(trail, "size").saw == "all-reduce of 4.0 KiB < threshold 16.0 MiB");
  CHECK(Step(trail, "transport").verdict == Verdict::kPassed);
  for (const RuleStep& step : trail) {
    CHECK_FALSE(step.question.empty());
    CHECK(step.saw.empty() == (step.verdict == Verdict::kNotAsked));
  }
}

TEST_CASE("a placement that fails tells what every one of its rules saw") {
  const Topology topology = MakeTopology(8, 4, 4);
  const Settled settled = SettleWithTrail(AllReduce({{0, 4}}, 4096, topology), topology, Options());
  CHECK(settled.record.rule == "no-placement");
  CHECK(Step(settled.trail, "single-device").saw == "up to 4 devices per process (2 processes)");
  CHECK(Step(settled.trail, "single-partition").saw == "devices 0 and 4 lie in processes 0 and 1");
  CHECK(Step(settled.trail, "nvlink-domain").verdict == Verdict::kDefault);
  CHECK(Step(settled.trail, "nvlink-domain").saw == "the module's 8 devices span 2 NVLink domains");
  CHECK(Step(settled.trail, "size").verdict == Verdict::kNotAsked);
}

TEST_CASE("each profile has its own rules, in the order in which they are asked") {
  const Topology topology = MakeTopology(4, 1, 2);
  Options options;
  options.profile = Profile::kDomain;
  std::vector<std::string> rules;
  for (const RuleStep& step : SettleWithTrail(Permute({{0, 1}}, 64, topology), topology, options).trail) {
    rules.push_back(step.rule);
  }
  CHECK(rules == std::vector<std::string>{"unconsidered-op", "unresolved-groups", "unknown-device", "group-in-domain",
                                          "size", "form", "transport"});
}

TEST_CASE("what was measured is the last word of profile tuned, after its place and a limit") {
  const Topology topology = MakeTopology(2, 1, 8);
  Options options;
  options.profile = Profile::kTuned;
  std::string error;
  REQUIRE(TuningTable::Create({{OpKind::kAllReduce, element_type::kF32, 2, 1024, {2, 1.9, 2.1}, {310, 306, 314}},
                               {OpKind::kAllReduce, element_type::kF32, 2, 4096, {700, 690, 710}, {310, 306, 314}}},
                              &options.tuning, &error));
  for (const auto& [bytes, backend] : {std::pair<int64_t, const char*>{1024, "NVSHMEM"}, {4096, "DEFAULT"}}) {
    const Settled settled = SettleWithTrail(AllReduce({{0, 1}}, bytes, topology), topology, options);
    CHECK(Step(settled.trail, "group-in-domain").verdict == Verdict::kNvshmem);
    CHECK(VerdictName(Step(settled.trail, "tuned").verdict) == std::string(backend));
    CHECK(Step(settled.trail, "tuned").saw == settled.record.reason);
    CHECK(LastBackend(settled.trail) == settled.record.lowered);
  }
  const Settled unmeasured = SettleWithTrail(Permute({{0, 1}}, 64, topology), topology, options);
  CHECK(Step(unmeasured.trail, "tuned").verdict == Verdict::kDefault);
  CHECK(Step(unmeasured.trail, "unconsidered-op").verdict == Verdict::kPassed);
}

TEST_CASE("the last rule that names a backend is what is lowered") {
  const Topology topology = MakeTopology(4, 2, 2);
  CollectiveSpec unresolved = AllReduce({{0, 1}}, 64, topology);
  unresolved.unresolved = "groups overlap";
  CollectiveSpec gather = AllReduce({{0, 1}}, 64, topology);
  gather.op = OpKind::kAllGather;
  Options domain;
  domain.profile = Profile::kDomain;
  for (const CollectiveSpec& spec :
       {AllReduce({{0, 1}}, 64, topology), AllReduce({{0, 3}}, 64, topology), AllReduce({{0, 9}}, 64, topology),
        AllReduce({{0, 1}}, int64_t{1} << 30, topology), Permute({{1, 2}}, 64, topology), unresolved, gather}) {
    for (const Options& options : {Options(), domain}) {
      for (const char* obstacle : {"", "its shape is given twice"}) {
        const Settled settled = SettleWithTrail(spec, topology, options, obstacle);
        CHECK(LastBackend(settled.trail) == settled.record.lowered);
      }
    }
  }
}

}  // namespace
}  // namespace xla_shmem
