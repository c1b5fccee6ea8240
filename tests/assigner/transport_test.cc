#include "xla_patch/assigner/transport.h"

#include <doctest/doctest.h>

#include "tests/assigner/specs.h"

namespace xla_shmem {
namespace {

using test::AllReduce;
using test::MakeTopology;
using test::Permute;

const Topology kTopology = MakeTopology(4, 1, 8);
const std::unordered_map<int64_t, int32_t> kReach = {{0, 0}, {1, 0}, {2, 0}, {3, 1}};
const Transport kOneHost = CpuTransport(kReach);
const Transport kGpus = GpuTransport(kReach);

const std::unordered_map<int64_t, int32_t> kOnlyDevice0 = {{0, 0}};
const std::unordered_map<int64_t, int32_t> kNobody;

TEST_CASE("CPUs and GPUs carry four reductions of twelve types") {
  for (const Transport& transport : {kOneHost, kGpus}) {
    for (const int32_t number : {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 16}) {
      const auto type = static_cast<ElementType>(number);
      for (const ReductionKind reduction :
           {ReductionKind::kSum, ReductionKind::kProd, ReductionKind::kMin, ReductionKind::kMax}) {
        CollectiveSpec spec = AllReduce({{0, 1, 2}}, 4, kTopology);
        spec.element_types = {type};
        spec.reduction = reduction;
        CHECK_FALSE(UnsupportedByTransport(spec, kTopology, transport).has_value());
      }
    }
  }
}

TEST_CASE("a dtype without a reduction is vetoed by name, also inside a tuple") {
  CollectiveSpec spec = AllReduce({{0, 1}}, 4, kTopology);
  spec.element_types = {ElementType::kF32, ElementType::kF8E8M0Fnu};
  CHECK(UnsupportedByTransport(spec, kTopology, kOneHost) == "no SHMEM all-reduce for f8e8m0fnu");
  spec.op = CollectiveOp::kReduceScatter;
  CHECK(UnsupportedByTransport(spec, kTopology, kOneHost) == "no SHMEM reduce-scatter for f8e8m0fnu");
  CHECK(UnsupportedByTransport(spec, kTopology, kGpus) == "no SHMEM reduce-scatter for f8e8m0fnu");
}

TEST_CASE("CPUs and GPUs carry the ops that are lowered for them, a patched XLA those of GPUs") {
  const Transport patched = PatchedXlaTransport(kReach);
  for (const CollectiveOpInfo& info : kCollectiveOps) {
    const CollectiveOp op = info.op;
    CollectiveSpec spec = AllReduce({{0, 1, 2}}, 4, kTopology);
    spec.op = op;
    CHECK(UnsupportedByTransport(spec, kTopology, kOneHost).has_value() != info.Has(op_trait::kOnCpu));
    CHECK(UnsupportedByTransport(spec, kTopology, kGpus).has_value() != info.Has(op_trait::kOnGpu));
    CHECK(UnsupportedByTransport(spec, kTopology, patched) == UnsupportedByTransport(spec, kTopology, kGpus));
  }
}

TEST_CASE("a permute carries any whole-byte type and no other") {
  CollectiveSpec spec = Permute({{0, 1}}, 4, kTopology);
  for (const int32_t number : {1, 15, 18, 19, 28, 33}) {
    const auto type = static_cast<ElementType>(number);
    spec.element_types = {type};
    CHECK_FALSE(UnsupportedByTransport(spec, kTopology, kOneHost).has_value());
  }
  for (const int32_t number : {14, 17, 21, 30, 34, 77}) {
    const auto type = static_cast<ElementType>(number);
    spec.element_types = {type};
    CHECK(UnsupportedByTransport(spec, kTopology, kOneHost) == ElementTypeName(type) + " has no whole-byte elements");
  }
}

TEST_CASE("unknown reductions, and logical ones of floats, are vetoed") {
  CollectiveSpec spec = AllReduce({{0, 1}}, 4, kTopology);
  spec.reduction = std::nullopt;
  CHECK(UnsupportedByTransport(spec, kTopology, kOneHost) ==
        "the reduction is not a plain sum, prod, min, max, and, or or xor");
  spec.reduction = ReductionKind::kAnd;
  CHECK(UnsupportedByTransport(spec, kTopology, kOneHost) == "no SHMEM reduction \"and\" for f32");
  spec.element_types = {ElementType::kS32};
  CHECK_FALSE(UnsupportedByTransport(spec, kTopology, kOneHost).has_value());
  CHECK_FALSE(UnsupportedByTransport(spec, kTopology, kGpus).has_value());
}

TEST_CASE("peers out of reach are named with PE and host") {
  CHECK(UnsupportedByTransport(AllReduce({{0, 3}}, 4, kTopology), kTopology, kOneHost) ==
        "device 3 (PE 3, host 3) is out of reach of device 0 (PE 0, host 0)");
  CHECK(UnsupportedByTransport(Permute({{2, 3}}, 4, kTopology), kTopology, kOneHost).value_or("").find("device 3") ==
        0);
  CHECK_FALSE(UnsupportedByTransport(AllReduce({{0, 1}, {2}, {3}}, 4, kTopology), kTopology, kOneHost).has_value());
  CHECK(UnsupportedByTransport(Permute({{0, 1}}, 4, kTopology), kTopology, CpuTransport(kOnlyDevice0)).has_value());
}

TEST_CASE("a send to oneself needs no reach, and without a map every PE is in reach") {
  CHECK_FALSE(UnsupportedByTransport(Permute({{3, 3}}, 4, kTopology), kTopology, CpuTransport(kNobody)).has_value());
  Transport everywhere = kOneHost;
  everywhere.reach.reset();
  CHECK_FALSE(UnsupportedByTransport(AllReduce({{0, 3}}, 4, kTopology), kTopology, everywhere).has_value());
}

TEST_CASE("repeated sources, targets and group members are vetoed") {
  CHECK(UnsupportedByTransport(Permute({{0, 1}, {2, 1}}, 4, kTopology), kTopology, kOneHost) ==
        "device 1 is the target of two pairs");
  CHECK(UnsupportedByTransport(Permute({{0, 1}, {0, 2}}, 4, kTopology), kTopology, kOneHost) ==
        "device 0 is the source of two pairs");
  CHECK(UnsupportedByTransport(AllReduce({{0, 1}, {1, 2}}, 4, kTopology), kTopology, kOneHost) ==
        "device 1 occurs twice in the replica groups");
}

TEST_CASE("an unavailable transport vetoes everything with its reason") {
  Transport missing;
  missing.unavailable_reason = "libnvshmem_host.so.3: not found";
  CHECK(UnsupportedByTransport(Permute({{0, 1}}, 4, kTopology), kTopology, missing) ==
        "libnvshmem_host.so.3: not found");
  CHECK(UnsupportedByTransport(Permute({{0, 1}}, 4, kTopology), kTopology, Transport()) == "no SHMEM transport");
}

// GPUs of one NVLink domain.
struct OneDomain {
  explicit OneDomain(int n) : topology(MakeTopology(n, 1, n)) {
    for (int64_t device = 0; device < n; ++device) {
      reach[device] = 0;
      devices.push_back(device);
    }
  }
  std::unordered_map<int64_t, int32_t> reach;
  std::vector<int64_t> devices;
  Topology topology;
};

TEST_CASE("A group larger than a kernel can take is vetoed with both numbers") {
  OneDomain gpus(129);
  CollectiveSpec spec = AllReduce({gpus.devices}, 4, gpus.topology);
  CHECK(UnsupportedByTransport(spec, gpus.topology, GpuTransport(gpus.reach)) ==
        "a replica group of 129 devices, at most 128 can take part");
  spec.op = CollectiveOp::kAllGather;
  CHECK(UnsupportedByTransport(spec, gpus.topology, GpuTransport(gpus.reach)).has_value());
  gpus.devices.pop_back();
  spec = AllReduce({gpus.devices}, 4, gpus.topology);
  CHECK_FALSE(UnsupportedByTransport(spec, gpus.topology, GpuTransport(gpus.reach)).has_value());
}

TEST_CASE("An all-to-all of more arrays than a kernel can take is vetoed with both numbers") {
  const OneDomain gpus(81);
  CollectiveSpec spec = AllReduce({gpus.devices}, 4, gpus.topology);
  spec.op = CollectiveOp::kAllToAll;
  // One array of 81 parts.
  CHECK_FALSE(UnsupportedByTransport(spec, gpus.topology, GpuTransport(gpus.reach)).has_value());
  spec.element_types.assign(81, ElementType::kF32);
  CHECK(UnsupportedByTransport(spec, gpus.topology, GpuTransport(gpus.reach)) ==
        "an all-to-all of 81 arrays, at most 80 can be exchanged");
  CHECK_FALSE(UnsupportedByTransport(spec, gpus.topology, CpuTransport(gpus.reach)).has_value());
  spec.element_types.pop_back();
  CHECK_FALSE(UnsupportedByTransport(spec, gpus.topology, GpuTransport(gpus.reach)).has_value());
}

}  // namespace
}  // namespace xla_shmem
