#include "xla_patch/assigner/decision_trace.h"

#include <doctest/doctest.h>

#include <limits>

#include "tests/assigner/specs.h"
#include "xla_patch/assigner/record.h"

namespace xla_shmem {
namespace {

using test::AllReduce;
using test::MakeTopology;
using test::Permute;

struct Traced {
  CollectiveRecord record;
  DecisionTrace trace;
};

Traced DecideWithTrace(const CollectiveSpec& spec, const Topology& topology, const Options& options,
                       const Unsupported& form = std::nullopt) {
  Traced traced;
  traced.record = DescribeSpec(spec);
  DecideAndRecord(spec, topology, options, CpuTransport(std::nullopt), {form, {}}, &traced.record, &traced.trace);
  CollectiveRecord without = DescribeSpec(spec);
  DecideAndRecord(spec, topology, options, CpuTransport(std::nullopt), {form, {}}, &without);
  CHECK(traced.record.backend == without.backend);  // a trace changes nothing
  CHECK(traced.record.rule == without.rule);
  CHECK(traced.record.reason == without.reason);
  CHECK(traced.record.veto == without.veto);
  return traced;
}

const RuleStep& Step(const DecisionTrace& trace, const std::string& rule) {
  for (const RuleStep& step : trace) {
    if (step.rule == rule) {
      return step;
    }
  }
  FAIL("no rule " << rule);
  return trace[0];
}

// The verdict of the last rule that names a backend.
std::string LastBackend(const DecisionTrace& trace) {
  std::string last;
  for (const RuleStep& step : trace) {
    if (step.verdict == Verdict::kDefault || step.verdict == Verdict::kNvshmem) {
      last = VerdictName(step.verdict);
    }
  }
  return last;
}

TEST_CASE("rules after the deciding one are not asked, except for the size") {
  const Topology topology = MakeTopology(4, 1, 4);
  const DecisionTrace trace = DecideWithTrace(AllReduce({{0, 1}}, 4096, topology), topology, Options()).trace;
  CHECK(Step(trace, "single-device").verdict == Verdict::kNvshmem);
  CHECK(Step(trace, "single-device").evidence == "one device per process (4 processes)");
  CHECK(Step(trace, "single-partition").verdict == Verdict::kNotAsked);
  CHECK(Step(trace, "single-partition").evidence.empty());
  CHECK(Step(trace, "size").evidence == "all-reduce of 4.0 KiB < threshold 16.0 MiB");
  CHECK(Step(trace, "transport").verdict == Verdict::kPassed);
  for (const RuleStep& step : trace) {
    CHECK_FALSE(step.question.empty());
    CHECK(step.evidence.empty() == (step.verdict == Verdict::kNotAsked));
  }
}

TEST_CASE("a failed placement shows the evidence of each of its rules") {
  const Topology topology = MakeTopology(8, 4, 4);
  const Traced traced = DecideWithTrace(AllReduce({{0, 4}}, 4096, topology), topology, Options());
  CHECK(traced.record.rule == "no-placement");
  CHECK(Step(traced.trace, "single-device").evidence == "up to 4 devices per process (2 processes)");
  CHECK(Step(traced.trace, "single-partition").evidence == "devices 0 and 4 lie in processes 0 and 1");
  CHECK(Step(traced.trace, "nvlink-domain").verdict == Verdict::kDefault);
  CHECK(Step(traced.trace, "nvlink-domain").evidence == "the module's 8 devices span 2 NVLink domains");
  CHECK(Step(traced.trace, "size").verdict == Verdict::kNotAsked);
}

TEST_CASE("each profile has its own rules, in the order in which they are asked") {
  const Topology topology = MakeTopology(4, 1, 2);
  Options options;
  options.profile = Profile::kDomain;
  std::vector<std::string> rules;
  for (const RuleStep& step : DecideWithTrace(Permute({{0, 1}}, 64, topology), topology, options).trace) {
    rules.push_back(step.rule);
  }
  CHECK(rules == std::vector<std::string>{"unconsidered-op", "unresolved-groups", "unknown-device", "group-in-domain",
                                          "size", "form", "transport"});
}

TEST_CASE("the rule for what the default backend cannot run is listed where it decides") {
  const Topology topology = MakeTopology(4, 1, 2);
  CollectiveSpec spec = Permute({{0, 1}}, 64, topology);
  spec.op = CollectiveOp::kRaggedAllToAll;
  spec.unsupported_by_xla = "XLA:CPU has no thunk for ragged-all-to-all";
  const Traced traced = DecideWithTrace(spec, topology, Options());
  CHECK(Step(traced.trace, "unconsidered-op").evidence ==
        "ragged-all-to-all need not be listed, as the default backend cannot run it");
  CHECK(Step(traced.trace, "no-stock-thunk").verdict == Verdict::kNvshmem);
  CHECK(Step(traced.trace, "no-stock-thunk").evidence == spec.unsupported_by_xla);
  CHECK(Step(traced.trace, "single-device").verdict == Verdict::kNotAsked);
}

TEST_CASE("profile tuned decides by measured times, after placement and a limit") {
  const Topology topology = MakeTopology(2, 1, 8);
  Options options;
  options.profile = Profile::kTuned;
  options.tuning =
      *TuningTable::Create({{CollectiveOp::kAllReduce, ElementType::kF32, 2, 1024, {2, 1.9, 2.1}, {310, 306, 314}},
                            {CollectiveOp::kAllReduce, ElementType::kF32, 2, 4096, {700, 690, 710}, {310, 306, 314}}});
  for (const auto& [bytes, backend] : {std::pair<int64_t, const char*>{1024, "NVSHMEM"}, {4096, "DEFAULT"}}) {
    const Traced traced = DecideWithTrace(AllReduce({{0, 1}}, bytes, topology), topology, options);
    CHECK(Step(traced.trace, "group-in-domain").verdict == Verdict::kNvshmem);
    CHECK(VerdictName(Step(traced.trace, "tuned").verdict) == std::string(backend));
    CHECK(Step(traced.trace, "tuned").evidence == traced.record.reason);
    CHECK(LastBackend(traced.trace) == traced.record.lowered);
  }
  const Traced unmeasured = DecideWithTrace(Permute({{0, 1}}, 64, topology), topology, options);
  CHECK(Step(unmeasured.trace, "tuned").verdict == Verdict::kDefault);
  CHECK(Step(unmeasured.trace, "unconsidered-op").verdict == Verdict::kPassed);
}

TEST_CASE("the last rule that names a backend is what is lowered") {
  const Topology topology = MakeTopology(4, 2, 2);
  CollectiveSpec unresolved = AllReduce({{0, 1}}, 64, topology);
  unresolved.unsupported_participants = "groups overlap";
  CollectiveSpec gather = AllReduce({{0, 1}}, 64, topology);
  gather.op = CollectiveOp::kAllGather;
  Options domain;
  domain.profile = Profile::kDomain;
  for (const CollectiveSpec& spec :
       {AllReduce({{0, 1}}, 64, topology), AllReduce({{0, 3}}, 64, topology), AllReduce({{0, 9}}, 64, topology),
        AllReduce({{0, 1}}, int64_t{1} << 30, topology), Permute({{1, 2}}, 64, topology), unresolved, gather}) {
    for (const Options& options : {Options(), domain}) {
      for (const Unsupported& form : {Unsupported(), Unsupported("its shape is given twice")}) {
        const Traced traced = DecideWithTrace(spec, topology, options, form);
        CHECK(LastBackend(traced.trace) == traced.record.lowered);
      }
    }
  }
}

TEST_CASE("sizes read well from bytes to exbibytes") {
  CHECK(FormatBytes(0) == "0 B");
  CHECK(FormatBytes(1023) == "1023 B");
  CHECK(FormatBytes(1024) == "1.0 KiB");
  CHECK(FormatBytes(1536) == "1.5 KiB");
  CHECK(FormatBytes(INT64_MAX) == "8.0 EiB");
}

TEST_CASE("times have three digits or one decimal") {
  CHECK(FormatTime(2.08) == "2.1 µs");
  CHECK(FormatTime(99.94) == "99.9 µs");
  CHECK(FormatTime(310.4) == "310 µs");
  CHECK(FormatTime(12345) == "12.3 ms");
  CHECK(FormatTime(std::numeric_limits<double>::infinity()) == "not run");
}

}  // namespace
}  // namespace xla_shmem
