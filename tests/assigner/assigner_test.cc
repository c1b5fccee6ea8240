#include "xla_patch/assigner/assigner.h"

#include <doctest/doctest.h>

#include "tests/assigner/specs.h"

namespace xla_shmem {
namespace {

using test::AllReduce;
using test::MakeTopology;
using test::Permute;

constexpr int64_t kMiB = int64_t{1} << 20;
const Options kBlogOptions;
const Options kDomainOptions = {Profile::kDomain, kDefaultThresholdBytes, {}, {}};

TEST_CASE("small all-reduce with one device per process uses NVSHMEM") {
  const Topology topology = MakeTopology(16, 1, 8);
  const Decision decision = Decide(AllReduce({{0, 5, 15}}, 4096, topology), topology, kBlogOptions);
  CHECK(decision.backend == Backend::kNvshmem);
  CHECK(decision.rule == "single-device");
  CHECK(decision.reason == "one device per process (16 processes); all-reduce of 4.0 KiB < threshold 16.0 MiB");
}

TEST_CASE("the threshold is strict and in bytes") {
  const Topology topology = MakeTopology(2, 1, 8);
  const auto decide = [&](int64_t bytes) {
    return Decide(AllReduce({{0, 1}}, bytes, topology), topology, kBlogOptions);
  };
  CHECK(decide(16 * kMiB - 4).backend == Backend::kNvshmem);
  CHECK(decide(16 * kMiB - 4).reason ==
        "one device per process (2 processes); all-reduce of 16.0 MiB (16777212 B) < threshold 16.0 MiB (16777216 B)");
  CHECK(decide(16 * kMiB).backend == Backend::kDefault);
  CHECK(decide(16 * kMiB).rule == "size");
  CHECK(decide(64 * kMiB).reason == "all-reduce of 64.0 MiB ≥ threshold 16.0 MiB");
  CHECK(decide(0).backend == Backend::kNvshmem);
}

TEST_CASE("another threshold moves the limit, zero turns all-reduces off") {
  const Topology topology = MakeTopology(2, 1, 8);
  const CollectiveSpec spec = AllReduce({{0, 1}}, 64 * kMiB, topology);
  CHECK(Decide(spec, topology, {Profile::kUpstream, 65 * kMiB, {}, {}}).backend == Backend::kNvshmem);
  CHECK(Decide(AllReduce({{0, 1}}, 0, topology), topology, {Profile::kUpstream, 0, {}, {}}).backend ==
        Backend::kDefault);
}

TEST_CASE("a permute has no size limit") {
  const Topology topology = MakeTopology(2, 1, 1);
  const Decision decision = Decide(Permute({{0, 1}}, 4096 * kMiB, topology), topology, kBlogOptions);
  CHECK(decision.backend == Backend::kNvshmem);
  CHECK(decision.reason == "one device per process (2 processes); collective-permute of 4.0 GiB, no size limit");
}

TEST_CASE("groups within one process each are a single partition") {
  const Topology topology = MakeTopology(16, 8, 8);
  const Decision inside = Decide(AllReduce({{0, 1, 2, 3}, {8, 9, 10, 15}}, 4096, topology), topology, kBlogOptions);
  CHECK(inside.rule == "single-partition");
  CHECK(inside.reason ==
        "all 2 groups within one process each (8 devices per process); "
        "all-reduce of 4.0 KiB < threshold 16.0 MiB");
  CHECK(Decide(Permute({{0, 1}, {9, 8}}, 4096, topology), topology, kBlogOptions).rule == "single-partition");
}

TEST_CASE("groups crossing processes with several devices each stay on DEFAULT") {
  const Topology topology = MakeTopology(16, 8, 8);
  const Decision decision = Decide(AllReduce({{0, 1}, {7, 8}}, 4096, topology), topology, kBlogOptions);
  CHECK(decision.backend == Backend::kDefault);
  CHECK(decision.rule == "no-placement");
  CHECK(decision.reason ==
        "devices 7 and 8 lie in processes 0 and 1 (8 devices per process), and the module's 16 devices "
        "span 2 NVLink domains");
  CHECK(Decide(Permute({{7, 8}}, 4, topology), topology, kBlogOptions).rule == "no-placement");
}

TEST_CASE("a module within one NVLink domain may cross processes") {
  const Topology topology = MakeTopology(16, 8, 72);
  const Decision decision = Decide(AllReduce({{7, 8}}, 4096, topology), topology, kBlogOptions);
  CHECK(decision.rule == "nvlink-domain");
  CHECK(decision.backend == Backend::kNvshmem);
}

TEST_CASE("profile domain looks at each group, also with one device per process") {
  const Topology topology = MakeTopology(16, 1, 8);
  CHECK(Decide(AllReduce({{0, 7}, {8, 15}}, 4096, topology), topology, kDomainOptions).rule == "group-in-domain");
  const Decision across = Decide(AllReduce({{0, 7}, {7, 8}}, 4096, topology), topology, kDomainOptions);
  CHECK(across.backend == Backend::kDefault);
  CHECK(across.rule == "group-across-domains");
  CHECK(across.reason == "devices 7 and 8 lie in NVLink domains 0 and 1");
  CHECK(Decide(Permute({{15, 0}}, 4, topology), topology, kDomainOptions).rule == "group-across-domains");
  CHECK(Decide(AllReduce({{0, 7}}, 16 * kMiB, topology), topology, kDomainOptions).rule == "size");
}

TEST_CASE("other collectives are not considered where no ops are listed") {
  const Topology topology = MakeTopology(2, 1, 8);
  for (const CollectiveOp op : {CollectiveOp::kAllGather, CollectiveOp::kReduceScatter, CollectiveOp::kAllToAll,
                                CollectiveOp::kCollectiveBroadcast, CollectiveOp::kRaggedAllToAll}) {
    CollectiveSpec spec = AllReduce({{0, 1}}, 4, topology);
    spec.op = op;
    const Decision decision = Decide(spec, topology, kBlogOptions);
    CHECK(decision.backend == Backend::kDefault);
    CHECK(decision.rule == "unconsidered-op");
    CHECK(decision.reason.find(OpName(op)) == 0);
  }
}

TEST_CASE("listed ops are considered, and only they") {
  const Topology topology = MakeTopology(2, 1, 8);
  Options options;
  options.ops = {{CollectiveOp::kAllGather, std::nullopt}, {CollectiveOp::kReduceScatter, 8192}};
  CollectiveSpec spec = AllReduce({{0, 1}}, 4096, topology);
  spec.op = CollectiveOp::kAllGather;
  Decision decision = Decide(spec, topology, options);
  CHECK(decision.backend == Backend::kNvshmem);
  CHECK(decision.rule == "single-device");
  CHECK(decision.reason == "one device per process (2 processes); all-gather of 4.0 KiB: listed in XLA_SHMEM_OPS");
  for (const CollectiveOp op : {CollectiveOp::kAllReduce, CollectiveOp::kCollectivePermute, CollectiveOp::kAllToAll}) {
    spec.op = op;
    decision = Decide(spec, topology, options);
    CHECK(decision.rule == "unconsidered-op");
    CHECK(decision.reason == std::string(OpName(op)) + " is not listed in XLA_SHMEM_OPS");
    CHECK_FALSE(IsConsidered(spec, options));
  }
}

TEST_CASE("what the default backend cannot run is moved, whatever the options and the placement") {
  const Topology topology = MakeTopology(4, 2, 2);
  CollectiveSpec spec = AllReduce({{1, 2}}, 64 * kMiB, topology);
  spec.unsupported_by_xla = "XLA:CPU has no reduction \"xor\" for s32";
  Options tuned;
  tuned.profile = Profile::kTuned;
  Options others;
  others.ops = {{CollectiveOp::kAllGather, std::nullopt}};
  for (const Options& options : {kBlogOptions, kDomainOptions, tuned, others}) {
    const Decision decision = Decide(spec, topology, options);
    CHECK(decision.backend == Backend::kNvshmem);
    CHECK(decision.rule == "no-stock-thunk");
    CHECK(decision.reason == spec.unsupported_by_xla);
    CHECK(IsConsidered(spec, options));
  }
  spec.groups.devices = {1, 9};
  CHECK(Decide(spec, topology, others).rule == "unknown-device");
}

TEST_CASE("a listed limit is strict and goes before the threshold") {
  const Topology topology = MakeTopology(2, 1, 8);
  Options options;
  options.threshold = 1024;
  options.ops = {{CollectiveOp::kAllReduce, 8192}, {CollectiveOp::kAllToAll, 100}};
  CHECK(Decide(AllReduce({{0, 1}}, 8191, topology), topology, options).reason ==
        "one device per process (2 processes); all-reduce of 8.0 KiB (8191 B) < XLA_SHMEM_OPS limit 8.0 KiB (8192 B)");
  CHECK(Decide(AllReduce({{0, 1}}, 8192, topology), topology, options).reason ==
        "all-reduce of 8.0 KiB ≥ XLA_SHMEM_OPS limit 8.0 KiB");
  CollectiveSpec spec = AllReduce({{0, 1}}, 100, topology);
  spec.op = CollectiveOp::kAllToAll;
  CHECK(Decide(spec, topology, options).rule == "size");
}

TEST_CASE("a listed all-reduce without a limit has the threshold, or none if that is off") {
  const Topology topology = MakeTopology(2, 1, 8);
  Options options;
  options.ops = {{CollectiveOp::kAllReduce, std::nullopt}};
  CHECK(Decide(AllReduce({{0, 1}}, 16 * kMiB, topology), topology, options).rule == "size");
  options.threshold = kNoThreshold;
  CHECK(Decide(AllReduce({{0, 1}}, 16 * kMiB, topology), topology, options).reason ==
        "one device per process (2 processes); all-reduce of 16.0 MiB: listed in XLA_SHMEM_OPS");
  options.ops.clear();
  CHECK(Decide(AllReduce({{0, 1}}, 16 * kMiB, topology), topology, options).reason ==
        "one device per process (2 processes); all-reduce of 16.0 MiB, no size limit");
}

TEST_CASE("a device outside the topology is named") {
  const Topology topology = MakeTopology(4, 1, 8);
  const Decision decision = Decide(AllReduce({{0, 9}}, 4, topology), topology, kBlogOptions);
  CHECK(decision.rule == "unknown-device");
  CHECK(decision.reason == "device 9 is not among the 4 devices of the topology");
  CHECK(Decide(Permute({{0, 5}}, 4, topology), topology, kBlogOptions).rule == "unknown-device");
}

TEST_CASE("groups that could not be read leave the op on DEFAULT and say why") {
  const Topology topology = MakeTopology(4, 1, 8);
  CollectiveSpec spec = AllReduce({}, 4, topology);
  spec.unsupported_participants = "replica groups: an empty group";
  const Decision decision = Decide(spec, topology, kBlogOptions);
  CHECK(decision.rule == "unresolved-groups");
  CHECK(decision.reason == spec.unsupported_participants);
}

TEST_CASE("a permute without pairs and groups of one device are placed") {
  const Topology topology = MakeTopology(16, 8, 8);
  CHECK(Decide(Permute({}, 4, topology), topology, kBlogOptions).rule == "single-partition");
  CHECK(Decide(AllReduce({{3}, {12}}, 4, topology), topology, kBlogOptions).rule == "single-partition");
}

}  // namespace
}  // namespace xla_shmem
