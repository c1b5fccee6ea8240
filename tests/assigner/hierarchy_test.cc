#include "xla_patch/assigner/hierarchy.h"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "tests/assigner/specs.h"
#include "xla_patch/assigner/hierarchical_rule.h"
#include "xla_patch/assigner/record.h"

namespace xla_shmem::test {
namespace {

using Ids = std::vector<int64_t>;

Options With(Hierarchical hierarchical) {
  Options options;
  options.profile = Profile::kDomain;
  options.hierarchical = hierarchical;
  return options;
}

TEST_CASE("domains and devices keep the order of the group") {
  const Topology topology = MakeTopology(8, 1, 2);
  const Result<Hierarchy> divided = DivideByDomain(AllReduce({{4, 1, 5, 0}, {6, 7, 3, 2}}, 64, topology), topology);
  REQUIRE(divided.ok());
  CHECK(divided->num_domains == 2);
  CHECK(divided->local_size == 2);
  CHECK(divided->local.devices == Ids{4, 5, 1, 0, 6, 7, 3, 2});
  CHECK(divided->local.offsets == Ids{0, 2, 4, 6, 8});
  CHECK(divided->positions == Ids{0, 2, 1, 3, 0, 1, 2, 3});
  CHECK(divided->across.devices == Ids{4, 1, 5, 0, 6, 3, 7, 2});
  CHECK(divided->across.offsets == Ids{0, 2, 4, 6, 8});
}

TEST_CASE("groups of several shapes are not divided") {
  const Topology topology = MakeTopology(8, 1, 4);
  const auto error = [&](const std::vector<Ids>& groups) {
    return DivideByDomain(AllReduce(groups, 64, topology), topology).message();
  };
  CHECK(error({{0, 1, 4, 5}, {2, 6}}) == "groups 0 and 1 are 2 × 2 and 2 × 1 NVLink domains × devices");
  CHECK(error({{0, 1, 2, 4}}) == "group 0 has 3 and 1 devices in two of its NVLink domains");
  CHECK(error({{0, 4}, {1, 5}}) == "each device of a group is alone in its NVLink domain");
}

TEST_CASE("pairs are divided one by one") {
  const Topology topology = MakeTopology(4, 1, 2);
  const Result<Hierarchy> divided = DivideByDomain(Permute({{0, 1}, {1, 2}, {2, 3}}, 64, topology), topology);
  REQUIRE(divided.ok());
  CHECK(divided->local_pairs == std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {2, 3}});
  CHECK(divided->across_pairs == std::vector<std::pair<int64_t, int64_t>>{{1, 2}});
}

TEST_CASE("a broadcast may have other numbers of devices in each domain") {
  const Topology topology = MakeTopology(6, 1, 2);
  CollectiveSpec spec = AllReduce({{3, 0, 2, 1, 4}}, 64, topology);
  spec.op = CollectiveOp::kCollectiveBroadcast;
  spec.reduction.reset();
  const Result<Hierarchy> divided = DivideByDomain(spec, topology);
  REQUIRE(divided.ok());
  CHECK(divided->num_domains == 3);
  CHECK(divided->local.devices == Ids{3, 2, 0, 1, 4});
  CHECK(divided->local.offsets == Ids{0, 2, 4, 5});
}

TEST_CASE("only a collective that crosses domains is asked about") {
  const Topology topology = MakeTopology(4, 1, 2);
  CollectiveRecord record;
  const auto decide = [&](const CollectiveSpec& spec, const Options& options) {
    record = DescribeSpec(spec);
    return DecideAndRecord(spec, topology, options, CpuTransport({}), {}, &record).has_value();
  };
  CHECK(decide(AllReduce({{0, 1, 2, 3}}, 64, topology), With(Hierarchical::kOn)));
  CHECK(record.lowered == "HIERARCHICAL");
  CHECK(record.rule == "hierarchical");
  CHECK_FALSE(decide(AllReduce({{0, 1}, {2, 3}}, 64, topology), With(Hierarchical::kOn)));
  CHECK(record.lowered == "NVSHMEM");
  CHECK_FALSE(decide(AllReduce({{0, 1, 2, 3}}, 64, topology), With(Hierarchical::kOff)));
  CHECK(record.rule == "group-across-domains");
}

TEST_CASE("the trace names the rule where it was asked") {
  const Topology topology = MakeTopology(4, 1, 2);
  const CollectiveSpec spec = AllReduce({{0, 1, 2, 3}}, 64, topology);
  CollectiveRecord record;
  DecisionTrace trace;
  DecideAndRecord(spec, topology, With(Hierarchical::kOn), CpuTransport({}), {}, &record, &trace);
  REQUIRE(trace.back().rule == "hierarchical");
  CHECK(trace.back().verdict == Verdict::kHierarchical);
  CHECK(trace.back().evidence == record.reason);
}

TEST_CASE("the order of the devices in groups is that of domains, or of places in them") {
  const Topology topology = MakeTopology(8, 1, 4);
  const auto order = [&](const std::vector<Ids>& groups) {
    return OrderOf(*DivideByDomain(AllReduce(groups, 64, topology), topology));
  };
  CHECK(order({{0, 1, 4, 5}, {6, 7, 2, 3}}) == GroupOrder::kByDomain);
  CHECK(order({{3, 2, 7, 5}}) == GroupOrder::kByDomain);
  CHECK(order({{0, 4, 1, 5}, {6, 2, 7, 3}}) == GroupOrder::kByIndex);
  CHECK_FALSE(order({{0, 4, 5, 1}}).has_value());
  CHECK_FALSE(order({{0, 1, 4, 5}, {2, 6, 3, 7}}).has_value());
}

TEST_CASE("on GPU only the option divides, and only where the transport reaches within domains") {
  const Topology topology = MakeTopology(4, 1, 2);
  const CollectiveSpec spec = AllReduce({{0, 1, 2, 3}}, 64, topology);
  const Transport gpu = GpuTransport({{0, 0}, {1, 0}, {2, 1}, {3, 1}});
  const auto reason = [&](Hierarchical hierarchical, const Transport& transport) {
    return DecideHierarchical(spec, topology, With(hierarchical), transport, {}).reason;
  };
  CHECK(DecideHierarchical(spec, topology, With(Hierarchical::kOn), gpu, {}).hierarchy.has_value());
  CHECK(reason(Hierarchical::kAuto, gpu) == "XLA_SHMEM_HIERARCHICAL is auto, which divides nothing on GPU");
  CHECK(reason(Hierarchical::kOn, GpuTransport({{0, 0}, {1, 1}})).find("out of reach") != std::string::npos);
  CHECK(reason(Hierarchical::kOn, PatchedXlaTransport({{0, 0}, {1, 0}, {2, 1}, {3, 1}})) ==
        "this transport carries no parts of collectives");
}

TEST_CASE("operands of several types and unknown reductions are refused") {
  const Topology topology = MakeTopology(4, 1, 2);
  CollectiveSpec spec = AllReduce({{0, 1, 2, 3}}, 64, topology);
  const Options on = With(Hierarchical::kOn);
  spec.element_types = {ElementType::kF32, ElementType::kS32};
  CHECK(DecideHierarchical(spec, topology, on, CpuTransport({}), {}).reason ==
        "its operands have several element types");
  spec.reduction.reset();
  CHECK_FALSE(DecideHierarchical(spec, topology, on, CpuTransport({}), {}).hierarchy.has_value());
}

Options Measured(std::vector<TuningRow> rows, Hierarchical hierarchical = Hierarchical::kAuto) {
  Options options = With(hierarchical);
  options.profile = Profile::kTuned;
  Result<TuningTable> table = TuningTable::Create(std::move(rows));
  REQUIRE_MESSAGE(table.ok(), table.message());
  options.tuning = *std::move(table);
  return options;
}

// Of groups of 4 in two domains.
TuningRow MeasuredRow(BackendTime divided, BackendTime whole, int64_t domains = 2) {
  return {CollectiveOp::kAllReduce, ElementType::kF32, 4, 1024, divided, whole, domains};
}

// The decision about an all-reduce of 1 KiB on two domains of two devices.
CollectiveRecord DecideFourDevices(const Options& options) {
  const Topology topology = MakeTopology(4, 1, 2);
  const CollectiveSpec spec = AllReduce({{0, 1, 2, 3}}, 1024, topology);
  CollectiveRecord record = DescribeSpec(spec);
  record.num_domains = 7;  // as an earlier decision had it
  DecideAndRecord(spec, topology, options, CpuTransport({}), {}, &record);
  return record;
}

TEST_CASE("profile tuned divides what was measured to be faster in parts, with both times in the reason") {
  const CollectiveRecord divided = DecideFourDevices(Measured({MeasuredRow({90, 80, 99}, {310, 300, 320})}));
  CHECK(divided.lowered == "HIERARCHICAL");
  CHECK(divided.num_domains == 2);
  CHECK(divided.reason ==
        "2 NVLink domains × 2 devices; all-reduce of 1.0 KiB: HIERARCHICAL 90.0 µs, DEFAULT 310 µs measured (f32, "
        "groups of 4, 2 NVLink domains)");
  // The model expects the opposite.
  const CollectiveRecord whole = DecideFourDevices(Measured({MeasuredRow({310, 300, 320}, {90, 80, 99})}));
  CHECK(whole.lowered == "DEFAULT");
  CHECK(whole.num_domains == 0);
  CHECK(whole.reason.find("; not divided: 2 NVLink domains × 2 devices; all-reduce of 1.0 KiB: HIERARCHICAL 310 µs, "
                          "DEFAULT 90.0 µs measured (f32, groups of 4, 2 NVLink domains)") != std::string::npos);
}

TEST_CASE("a tie leaves it whole, and its reason gives the uncertainty") {
  const CollectiveRecord record = DecideFourDevices(Measured({MeasuredRow({20, 18, 25.5}, {25, 21.5, 31})}));
  CHECK(record.lowered == "DEFAULT");
  CHECK(record.rule == "group-across-domains");
  CHECK(record.reason.find("2 NVLink domains), which may be 18.0 µs to 25.5 µs and 21.5 µs to 31.0 µs") !=
        std::string::npos);
}

TEST_CASE("a reason names another number of domains than the measured one") {
  const Topology topology = MakeTopology(6, 1, 2);
  const CollectiveSpec spec = AllReduce({{0, 1, 2, 3, 4, 5}}, 64, topology);
  const Options options = Measured({MeasuredRow({1, 1, 1}, {9, 9, 9})});
  const HierarchicalDecision decision = DecideHierarchical(spec, topology, options, CpuTransport({}), {});
  CHECK(decision.hierarchy.has_value());
  CHECK(decision.reason.find("(f32, groups of 4 for 6, 2 for 3 NVLink domains, at 1.0 KiB, the smallest size)") !=
        std::string::npos);
}

TEST_CASE("where nothing was measured over several domains the model decides and the reason says so") {
  for (const Options& options : {Measured({}), Measured({MeasuredRow({900, 900, 900}, {1, 1, 1}, 1)})}) {
    const CollectiveRecord record = DecideFourDevices(options);
    CHECK(record.lowered == "HIERARCHICAL");
    CHECK(record.reason.find("2 NVLink domains × 2 devices: expected ") == 0);
    CHECK(record.reason.find("whole; the tuning table has no all-reduce over several NVLink domains") !=
          std::string::npos);
  }
  Options by_domain = Measured({MeasuredRow({900, 900, 900}, {1, 1, 1})});
  by_domain.profile = Profile::kDomain;
  CHECK(DecideFourDevices(by_domain).reason.find("table") == std::string::npos);
  CHECK(DecideFourDevices(by_domain).lowered == "HIERARCHICAL");
}

TEST_CASE("the option goes before the table, and so does what XLA lacks") {
  const std::vector<TuningRow> rows = {MeasuredRow({900, 900, 900}, {1, 1, 1})};
  const CollectiveRecord on = DecideFourDevices(Measured(rows, Hierarchical::kOn));
  CHECK(on.lowered == "HIERARCHICAL");
  CHECK(on.reason == "2 NVLink domains × 2 devices; XLA_SHMEM_HIERARCHICAL is on");
  const std::vector<TuningRow> faster = {MeasuredRow({1, 1, 1}, {900, 900, 900})};
  CHECK(DecideFourDevices(Measured(faster, Hierarchical::kOff)).lowered == "DEFAULT");
  const Topology topology = MakeTopology(4, 1, 2);
  CollectiveSpec spec = AllReduce({{0, 1, 2, 3}}, 1024, topology);
  spec.unsupported_by_xla = "XLA:CPU lacks it";
  CHECK(DecideHierarchical(spec, topology, Measured(rows), CpuTransport({}), {}).hierarchy.has_value());
}

TEST_CASE("the attributes of a part have the number of domains") {
  CollectiveRecord part;
  part.num_domains = 3;
  CollectiveRecord read;
  AttributesToRecord(RecordToAttributes(part), &read);
  CHECK(read.num_domains == 3);
  CHECK(RecordToAttributes(CollectiveRecord()).count(attribute::kDomains) == 0);
}

TEST_CASE("the model weighs messages against copies") {
  const Topology topology = MakeTopology(8, 1, 4);
  CollectiveSpec spec = AllReduce({{0, 1, 2, 3, 4, 5, 6, 7}}, 1 << 20, topology);
  const Hierarchy hierarchy = *DivideByDomain(spec, topology);
  const HierarchicalTimes reduced = ExpectHierarchicalTimes(spec, hierarchy);
  CHECK(reduced.divided_us < reduced.whole_us);
  spec.op = CollectiveOp::kAllToAll;
  const Hierarchy exchange = *DivideByDomain(spec, topology);
  const HierarchicalTimes large = ExpectHierarchicalTimes(spec, exchange);
  CHECK(large.divided_us > large.whole_us);
  spec.bytes = 1 << 10;
  const HierarchicalTimes small = ExpectHierarchicalTimes(spec, exchange);
  CHECK(small.divided_us < small.whole_us);
}

}  // namespace
}  // namespace xla_shmem::test
