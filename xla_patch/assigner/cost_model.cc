#include "xla_patch/assigner/cost_model.h"

#include <algorithm>

namespace xla_shmem {
namespace {

struct Link {
  double gb_per_s;         // NVLink of a GPU, one direction: data sheets of the H100 and the GB200 NVL72
  double memory_gb_per_s;  // copies within a GPU: 0.745 of the data sheets' 3,350 and 8,000 (predict's constants.toml)
};

constexpr Link kHopperLink{450, 2495}, kBlackwellLink{900, 5960};

// Fitted to the table of measured NCCL times in XLA (xla/service/gpu/model/collective_interpolator_data.h of jax
// 0.10.2: H100, 2 to 8 GPUs; GB200, 4 to 64 GPUs). Shares are of NVLink's bandwidth.
constexpr double kNcclLinkShare = 0.75;       // bytes on the link; all but all-reduces
constexpr double kNcclAllReduceShare = 0.51;  // bytes of the result, for any number of GPUs: NVLink SHARP or rings
constexpr double kNcclAllReduceUs = 5, kNcclAllReduceUsPerPeer = 3.3;
constexpr double kNcclAllReduceLeastUs = 13, kNcclAllReduceMostUs = 51;
constexpr double kNcclGatherUs = 12, kNcclGatherUsPerPeer = 1.3;
constexpr double kNcclAllToAllUs = 10, kNcclAllToAllUsPerPeer = 0.6;
constexpr double kNcclPermuteUs = 10.5, kNcclChannelGbPerS = 21.8;

// NCCL 2.30. src/graph/tuning.cc: base latency of the fastest protocol, which stands for a kernel's start and end; a
// step of protocol Simple (data, then a flag) over NVLink; the cost of each further peer that a kernel serves.
constexpr double kKernelUs = 6.6, kExchangeUs = 3.4, kPeerUs = 0.4;
constexpr int64_t kNcclChannelBytes = int64_t{16} << 20;

// predict's constants.toml: a put on a stream, and the share of NVLink that copy engines reach.
constexpr double kPutUs = 6.5, kPutShare = 0.85;
constexpr int64_t kPutSlotBytes = int64_t{4} << 20;  // docs/gpu.md

double Us(double bytes, double gb_per_s) { return bytes / (gb_per_s * 1e3); }

// A kernel that exchanges messages with all peers `exchanges` times. It stores to the link as NCCL's kernels do.
double KernelUs(int exchanges, double peers, double bytes_sent, const Link& link) {
  return kKernelUs + exchanges * (kExchangeUs + kPeerUs * (peers - 1)) + Us(bytes_sent, kNcclLinkShare * link.gb_per_s);
}

ExpectedTimes ExpectPermute(int64_t bytes, int64_t num_devices, const Link& link) {
  const double size = static_cast<double>(bytes);
  // The copy of the last slot out of the arena overlaps with nothing.
  const double put = kPutUs + kExchangeUs + Us(size, kPutShare * link.gb_per_s) +
                     Us(static_cast<double>(std::min(bytes, kPutSlotBytes)), link.memory_gb_per_s);
  const int64_t channels = NcclSendChannels(bytes, num_devices, kNcclChannels, kNcclChannels);
  const double speed = std::min(static_cast<double>(channels) * kNcclChannelGbPerS, kNcclLinkShare * link.gb_per_s);
  return {put, kNcclPermuteUs + Us(size, speed)};
}

ExpectedTimes ExpectAllReduce(double bytes, double peers, const Link& link) {
  const double one_shot = KernelUs(1, peers, peers * bytes, link);
  const double two_shot = KernelUs(2, peers, 2 * peers / (peers + 1) * bytes, link);
  const double nccl_latency =
      std::clamp(kNcclAllReduceUs + kNcclAllReduceUsPerPeer * peers, kNcclAllReduceLeastUs, kNcclAllReduceMostUs);
  return {peers > 1 ? std::min(one_shot, two_shot) : one_shot,
          nccl_latency + Us(bytes, kNcclAllReduceShare * link.gb_per_s)};
}

}  // namespace

const char* GpuGenerationName(GpuGeneration gpu) {
  switch (gpu) {
    case GpuGeneration::kHopper:
      return "hopper";
    case GpuGeneration::kBlackwell:
      return "blackwell";
    case GpuGeneration::kUnknown:
      break;
  }
  return "";
}

std::optional<GpuGeneration> GpuGenerationNamed(std::string_view name) {
  for (const GpuGeneration gpu : {GpuGeneration::kUnknown, GpuGeneration::kHopper, GpuGeneration::kBlackwell}) {
    if (name == GpuGenerationName(gpu)) {
      return gpu;
    }
  }
  return std::nullopt;
}

GpuGeneration GpuGenerationOf(int compute_capability_major) {
  if (compute_capability_major >= 10) {
    return GpuGeneration::kBlackwell;
  }
  return compute_capability_major == 9 ? GpuGeneration::kHopper : GpuGeneration::kUnknown;
}

int64_t NcclSendChannels(int64_t bytes, int64_t num_devices, int64_t channels, int64_t most) {
  int64_t used = most;
  while (used * num_devices > channels && used > 1) {
    used /= 2;
  }
  while (bytes > used * kNcclChannelBytes && used <= most / 2) {
    used *= 2;
  }
  return used;
}

std::optional<ExpectedTimes> ExpectTimes(CollectiveOp op, int64_t bytes, int64_t group_size, int64_t num_devices,
                                         GpuGeneration gpu) {
  if (gpu == GpuGeneration::kUnknown || group_size < 2) {
    return std::nullopt;
  }
  const Link& link = gpu == GpuGeneration::kHopper ? kHopperLink : kBlackwellLink;
  const double peers = static_cast<double>(group_size - 1);
  const double size = static_cast<double>(bytes);
  const double nccl_speed = kNcclLinkShare * link.gb_per_s;
  const auto expect = [&](double sent, double nccl_sent, double nccl_latency) {
    return ExpectedTimes{KernelUs(1, peers, sent, link), nccl_latency + Us(nccl_sent, nccl_speed)};
  };
  const double gather_us = kNcclGatherUs + kNcclGatherUsPerPeer * peers;
  const double others = peers / (peers + 1);
  switch (op) {
    case CollectiveOp::kAllReduce:
      return ExpectAllReduce(size, peers, link);
    case CollectiveOp::kCollectivePermute:
      return ExpectPermute(bytes, num_devices, link);
    case CollectiveOp::kAllGather:
      return expect(others * size, others * size, gather_us);
    case CollectiveOp::kReduceScatter:
      return expect(peers * size, peers * size, gather_us);
    case CollectiveOp::kAllToAll:
      return expect(others * size, others * size, kNcclAllToAllUs + kNcclAllToAllUsPerPeer * peers);
    case CollectiveOp::kCollectiveBroadcast:
      // The first PE sends to all; NCCL passes the bytes along a ring.
      return expect(peers * size, size, gather_us);
    case CollectiveOp::kRaggedAllToAll:
      break;
  }
  return std::nullopt;
}

}  // namespace xla_shmem
