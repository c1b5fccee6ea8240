#include "xla_patch/assigner/model_rule.h"

#include <doctest/doctest.h>

#include "tests/assigner/specs.h"
#include "xla_patch/assigner/record.h"

namespace xla_shmem {
namespace {

using test::AllReduce;
using test::MakeTopology;

constexpr int64_t kMiB = int64_t{1} << 20;
const std::vector<std::vector<int64_t>> kEight = {{0, 1, 2, 3, 4, 5, 6, 7}};

Options On(GpuGeneration gpu, Profile profile) {
  Options options;
  options.profile = profile;
  options.gpu = gpu;
  return options;
}

TEST_CASE("profile domain goes by the model instead of the threshold") {
  const Topology topology = MakeTopology(8, 1, 8);
  const Options options = On(GpuGeneration::kHopper, Profile::kDomain);
  const Decision small = Decide(AllReduce(kEight, kMiB, topology), topology, options);
  CHECK(small.backend == Backend::kNvshmem);
  CHECK(small.rule == "model");
  CHECK(small.reason ==
        "the group of 8 within one NVLink domain each; all-reduce of 1.0 MiB, no size limit; NVSHMEM 23.6 µs, DEFAULT "
        "32.7 µs expected (hopper, groups of 8; a model, not measured)");
  const Decision large = Decide(AllReduce(kEight, 64 * kMiB, topology), topology, options);
  CHECK(large.backend == Backend::kDefault);
  CHECK(large.rule == "model");
  // Two PEs: also above the threshold.
  CHECK(Decide(AllReduce({{0, 1}}, 64 * kMiB, topology), topology, options).backend == Backend::kNvshmem);
}

TEST_CASE("a threshold or a limit that a user sets holds, and the model does not decide") {
  const Topology topology = MakeTopology(8, 1, 8);
  Options options = On(GpuGeneration::kHopper, Profile::kDomain);
  options.threshold = kNoThreshold;
  CHECK(Decide(AllReduce(kEight, 64 * kMiB, topology), topology, options).rule == "group-in-domain");
  options.threshold = kDefaultThresholdBytes;
  options.ops = {{CollectiveOp::kAllReduce, 128 * kMiB}};
  CHECK(Decide(AllReduce(kEight, 64 * kMiB, topology), topology, options).rule == "group-in-domain");
  CHECK(Decide(AllReduce(kEight, 128 * kMiB, topology), topology, options).rule == "size");
}

TEST_CASE("without a known GPU profile domain decides as before, and nothing is said of the model") {
  const Topology topology = MakeTopology(8, 1, 8);
  const Options options = On(GpuGeneration::kUnknown, Profile::kDomain);
  CHECK(Decide(AllReduce(kEight, kMiB, topology), topology, options).rule == "group-in-domain");
  CHECK(Decide(AllReduce(kEight, 64 * kMiB, topology), topology, options).rule == "size");
  Options all;
  all.threshold = kNoThreshold;
  CHECK_FALSE(Decide(AllReduce(kEight, 64 * kMiB, topology), topology, all).model.has_value());
}

TEST_CASE("profile upstream decides as published, and says where NCCL may be faster") {
  const Topology topology = MakeTopology(64, 1, 64);
  const Options options = On(GpuGeneration::kBlackwell, Profile::kUpstream);
  std::vector<int64_t> all;
  for (int64_t i = 0; i < 64; ++i) {
    all.push_back(i);
  }
  const Decision many = Decide(AllReduce({all}, 8 * kMiB, topology), topology, options);
  CHECK(many.backend == Backend::kNvshmem);
  CHECK(many.rule == "single-device");
  REQUIRE(many.model.has_value());
  CHECK(many.model->find("NCCL may be faster: NVSHMEM ") == 0);
  CHECK(many.model->find("expected (blackwell, groups of 64; a model, not measured)") != std::string::npos);
  CHECK_FALSE(Decide(AllReduce(kEight, kMiB, topology), topology, options).model.has_value());
}

TEST_CASE("the note of the model is an attribute that reads back, unless the transport refuses anyway") {
  const Topology topology = MakeTopology(8, 1, 8);
  Options options = On(GpuGeneration::kHopper, Profile::kUpstream);
  options.threshold = kNoThreshold;
  const CollectiveSpec spec = AllReduce(kEight, 64 * kMiB, topology);
  CollectiveRecord record = DescribeSpec(spec);
  DecisionTrace trace;
  DecideAndRecord(spec, topology, options, CpuTransport({}), {}, &record, &trace);
  CHECK_FALSE(record.model.empty());
  CollectiveRecord read;
  AttributesToRecord(RecordToAttributes(record), &read);
  CHECK(read.model == record.model);
  bool is_traced = false;
  for (const RuleStep& step : trace) {
    is_traced |= step.rule == "model" && step.verdict == Verdict::kPassed && !step.question.empty();
  }
  CHECK(is_traced);
  Transport none;
  none.unavailable_reason = "no library";
  DecideAndRecord(spec, topology, options, none, {}, &record);
  CHECK(record.model.empty());
}

}  // namespace
}  // namespace xla_shmem
