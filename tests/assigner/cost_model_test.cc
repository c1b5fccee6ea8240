#include "xla_patch/assigner/cost_model.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace xla_shmem {
namespace {

constexpr GpuGeneration kHopper = GpuGeneration::kHopper, kBlackwell = GpuGeneration::kBlackwell;
constexpr int64_t kKiB = 1024, kMiB = int64_t{1} << 20, kGiB = int64_t{1} << 30;

ExpectedTimes Times(CollectiveOp op, int64_t bytes, int64_t group, GpuGeneration gpu) {
  const std::optional<ExpectedTimes> times = ExpectTimes(op, bytes, group, group, gpu);
  REQUIRE(times.has_value());
  return *times;
}

// NCCL's share of the time, above 1 where NVSHMEM is expected to be faster.
double Gain(CollectiveOp op, int64_t bytes, int64_t group, GpuGeneration gpu) {
  const ExpectedTimes times = Times(op, bytes, group, gpu);
  return times.nccl_us / times.nvshmem_us;
}

TEST_CASE("there is no model without a GPU, without peers, or of an op that nothing carries") {
  CHECK_FALSE(ExpectTimes(CollectiveOp::kAllReduce, kMiB, 8, 8, GpuGeneration::kUnknown).has_value());
  CHECK_FALSE(ExpectTimes(CollectiveOp::kAllReduce, kMiB, 1, 8, kHopper).has_value());
  CHECK_FALSE(ExpectTimes(CollectiveOp::kRaggedAllToAll, kMiB, 8, 8, kHopper).has_value());
}

TEST_CASE("generations have names and follow from the compute capability") {
  for (const GpuGeneration gpu : {GpuGeneration::kUnknown, kHopper, kBlackwell}) {
    CHECK(GpuGenerationNamed(GpuGenerationName(gpu)) == gpu);
  }
  CHECK_FALSE(GpuGenerationNamed("volta").has_value());
  CHECK(GpuGenerationOf(8) == GpuGeneration::kUnknown);
  CHECK(GpuGenerationOf(9) == kHopper);
  CHECK(GpuGenerationOf(10) == kBlackwell);
  CHECK(GpuGenerationOf(12) == kBlackwell);
}

TEST_CASE("on eight Hoppers NCCL wins large all-reduces, from near the published 16 MiB on") {
  CHECK(Gain(CollectiveOp::kAllReduce, 64 * kKiB, 8, kHopper) > 1.5);
  CHECK(Gain(CollectiveOp::kAllReduce, 8 * kMiB, 8, kHopper) > 1);
  CHECK(Gain(CollectiveOp::kAllReduce, 32 * kMiB, 8, kHopper) < 1);
}

TEST_CASE("two PEs move half the bytes of NCCL's all-reduce, so NVSHMEM wins all sizes") {
  for (const int64_t bytes : {kKiB, kMiB, kGiB}) {
    CHECK(Gain(CollectiveOp::kAllReduce, bytes, 2, kBlackwell) > 1);
  }
}

TEST_CASE("with many PEs the messages to each of them cost more than NCCL's") {
  CHECK(Gain(CollectiveOp::kAllReduce, kKiB, 64, kBlackwell) > 1);
  CHECK(Gain(CollectiveOp::kAllReduce, 4 * kMiB, 64, kBlackwell) < 1);
}

TEST_CASE("a broadcast sends all bytes to each peer, so NCCL wins large ones") {
  CHECK(Gain(CollectiveOp::kCollectiveBroadcast, kKiB, 8, kHopper) > 1);
  CHECK(Gain(CollectiveOp::kCollectiveBroadcast, 16 * kMiB, 8, kHopper) < 0.5);
}

TEST_CASE("a permute's send has fewer channels the more devices the module has, and more for large messages") {
  CHECK(NcclSendChannels(kMiB, 4, 32) == 8);
  CHECK(NcclSendChannels(kMiB, 64, 32) == 1);
  CHECK(NcclSendChannels(64 * kMiB, 64, 32) == 4);
  CHECK(NcclSendChannels(kGiB, 64, 32) == 32);
  CHECK(NcclSendChannels(kGiB, 64, 8) == 8);
  const auto nccl = [](int64_t devices) {
    return ExpectTimes(CollectiveOp::kCollectivePermute, 8 * kMiB, 4, devices, kBlackwell)->nccl_us;
  };
  CHECK(nccl(64) > 4 * nccl(4));
}

TEST_CASE("a send is as fast as its channels, up to what NCCL reaches of the link") {
  const GpuLinks links{100, 1000};
  const auto nccl = [&](const NcclSend& send) {
    return *ExpectTimes(CollectiveOp::kCollectivePermute, kGiB, 2, links, send);
  };
  const double us = static_cast<double>(kGiB) / 1e3;  // at 1 GB/s
  CHECK(nccl({2, 20}).nccl_share == doctest::Approx(0.4));
  CHECK(nccl({2, 20}).nccl_us == doctest::Approx(us / 40).epsilon(0.001));
  CHECK(nccl({8, 20}).nccl_share == doctest::Approx(kNcclLinkShare));
  CHECK(nccl({8, 20}).nccl_us == doctest::Approx(us / (100 * kNcclLinkShare)).epsilon(0.001));
  CHECK(nccl({8, 20}).nvshmem_us == nccl({2, 20}).nvshmem_us);
}

TEST_CASE("times grow with bytes and peers, and shrink with a faster link") {
  for (const CollectiveOpInfo& info : kCollectiveOps) {
    if (info.op == CollectiveOp::kRaggedAllToAll) {
      continue;
    }
    for (const int64_t group : {2, 4, 8, 64}) {
      for (int64_t bytes = kKiB; bytes < kGiB; bytes *= 4) {
        const ExpectedTimes times = Times(info.op, bytes, group, kHopper);
        const ExpectedTimes larger = Times(info.op, 4 * bytes, group, kHopper);
        const ExpectedTimes faster = Times(info.op, bytes, group, kBlackwell);
        CHECK(times.nvshmem_us > 0);
        CHECK(larger.nvshmem_us > times.nvshmem_us);
        CHECK(faster.nvshmem_us < times.nvshmem_us);
        CHECK(faster.nccl_us <= times.nccl_us);
        CHECK(Times(info.op, bytes, 2 * group, kHopper).nvshmem_us >= times.nvshmem_us);
      }
    }
  }
}

// Measured by NVIDIA on GB200 and H100 and published in XLA's table (jax 0.10.2), in µs.
TEST_CASE("NCCL's modelled times are within a factor of two of published measurements") {
  struct Published {
    CollectiveOp op;
    int64_t bytes;
    int64_t group;
    GpuGeneration gpu;
    double us;
  };
  const std::vector<Published> published = {
      {CollectiveOp::kAllReduce, 64 * kKiB, 8, kBlackwell, 31},
      {CollectiveOp::kAllReduce, 2 * kMiB, 8, kBlackwell, 35},
      {CollectiveOp::kAllReduce, 2 * kGiB, 8, kHopper, 9338},
      {CollectiveOp::kAllReduce, 16 * kGiB, 64, kBlackwell, 36537},
      {CollectiveOp::kAllGather, 64 * kKiB, 8, kBlackwell, 19},
      {CollectiveOp::kAllGather, 2 * kGiB, 64, kBlackwell, 3161},
      {CollectiveOp::kAllGather, 32 * kMiB, 8, kHopper, 129},
      {CollectiveOp::kAllToAll, 32 * kMiB, 8, kBlackwell, 82},
      {CollectiveOp::kAllToAll, 2 * kGiB, 4, kHopper, 4582},
      {CollectiveOp::kCollectivePermute, 8 * kMiB, 64, kBlackwell, 385},
      {CollectiveOp::kCollectivePermute, 2 * kGiB, 8, kHopper, 7344},
  };
  for (const Published& one : published) {
    const double ratio = Times(one.op, one.bytes, one.group, one.gpu).nccl_us / one.us;
    CHECK(std::abs(std::log2(ratio)) < 1);
  }
}

}  // namespace
}  // namespace xla_shmem
