#include "xla_patch/assigner/cost_model.h"

#include <algorithm>

namespace xla_shmem {
namespace {

// NVLink: data sheets of the H100 and the GB200 NVL72. Copies: 0.745 of the data sheets' 3,350 and 8,000 GB/s, as
// p2pBandwidthLatencyTest measured within an H100 (NVIDIA/nccl issue 1264).
constexpr GpuLinks kHopperLinks{450, 2495}, kBlackwellLinks{900, 5960};

// Fitted with kNcclLinkShare to the table of measured NCCL times in XLA
// (xla/service/gpu/model/collective_interpolator_data.h of jax 0.10.2: H100, 2 to 8 GPUs; GB200, 4 to 64 GPUs). Shares
// are of NVLink's bandwidth. The permutes of that table ran one at a time; in whole training steps `predict` fits
// another speed of a channel (predict/constants.toml).
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

// An NVSHMEM put on a stream takes 5.6 to 7.5 µs in addition to the transfer: openxla/xla pull request 30718. Copy
// engines reach 770 of 900 GB/s on GB200 (Azure/AI-benchmarking-guide issue 7), 376 of 450 on H100 (NVIDIA/nccl issue
// 1264).
constexpr double kPutUs = 6.5, kPutShare = 0.85;
constexpr int64_t kPutSlotBytes = int64_t{4} << 20;  // docs/gpu.md

double Us(double bytes, double gb_per_s) { return bytes / (gb_per_s * 1e3); }

// A kernel that exchanges messages with all peers `exchanges` times. It stores to the link as NCCL's kernels do.
double KernelUs(int exchanges, double peers, double bytes_sent, const GpuLinks& links) {
  return kKernelUs + exchanges * (kExchangeUs + kPeerUs * (peers - 1)) +
         Us(bytes_sent, kNcclLinkShare * links.nvlink_gb_per_s);
}

ExpectedTimes ExpectPermute(int64_t bytes, const GpuLinks& links, const NcclSend& send) {
  const double size = static_cast<double>(bytes);
  // The copy of the last slot out of the arena overlaps with nothing.
  const double put = kPutUs + kExchangeUs + Us(size, kPutShare * links.nvlink_gb_per_s) +
                     Us(static_cast<double>(std::min(bytes, kPutSlotBytes)), links.memory_gb_per_s);
  const double speed =
      std::min(static_cast<double>(send.channels) * send.channel_gb_per_s, kNcclLinkShare * links.nvlink_gb_per_s);
  return {put, kPutShare, kNcclPermuteUs + Us(size, speed), speed / links.nvlink_gb_per_s};
}

ExpectedTimes ExpectAllReduce(double bytes, double peers, const GpuLinks& links) {
  const double one_shot = KernelUs(1, peers, peers * bytes, links);
  const double two_shot = KernelUs(2, peers, 2 * peers / (peers + 1) * bytes, links);
  const double nccl_latency =
      std::clamp(kNcclAllReduceUs + kNcclAllReduceUsPerPeer * peers, kNcclAllReduceLeastUs, kNcclAllReduceMostUs);
  return {peers > 1 ? std::min(one_shot, two_shot) : one_shot, kNcclLinkShare,
          nccl_latency + Us(bytes, kNcclAllReduceShare * links.nvlink_gb_per_s), kNcclLinkShare};
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
    if (name == GpuGenerationName(gpu)) return gpu;
  }
  return std::nullopt;
}

GpuGeneration GpuGenerationOf(int compute_capability_major) {
  if (compute_capability_major >= 10) return GpuGeneration::kBlackwell;
  return compute_capability_major == 9 ? GpuGeneration::kHopper : GpuGeneration::kUnknown;
}

int64_t NcclSendChannels(int64_t bytes, int64_t num_devices, int64_t most) {
  int64_t used = most;
  while (used * num_devices > kNcclChannels && used > 1) used /= 2;
  while (bytes > used * kNcclChannelBytes && used <= most / 2) used *= 2;
  return used;
}

std::optional<ExpectedTimes> ExpectTimes(CollectiveOp op, int64_t bytes, int64_t group_size, const GpuLinks& links,
                                         const NcclSend& send) {
  if (group_size < 2) return std::nullopt;
  const double peers = static_cast<double>(group_size - 1);
  const double size = static_cast<double>(bytes);
  const double nccl_speed = kNcclLinkShare * links.nvlink_gb_per_s;
  const auto expect = [&](double sent, double nccl_sent, double nccl_latency) {
    return ExpectedTimes{KernelUs(1, peers, sent, links), kNcclLinkShare, nccl_latency + Us(nccl_sent, nccl_speed),
                         kNcclLinkShare};
  };
  const double gather_us = kNcclGatherUs + kNcclGatherUsPerPeer * peers;
  const double others = peers / (peers + 1);
  switch (op) {
    case CollectiveOp::kAllReduce:
      return ExpectAllReduce(size, peers, links);
    case CollectiveOp::kCollectivePermute:
      return ExpectPermute(bytes, links, send);
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

std::optional<ExpectedTimes> ExpectTimes(CollectiveOp op, int64_t bytes, int64_t group_size, int64_t num_devices,
                                         GpuGeneration gpu) {
  if (gpu == GpuGeneration::kUnknown) return std::nullopt;
  return ExpectTimes(op, bytes, group_size, gpu == GpuGeneration::kHopper ? kHopperLinks : kBlackwellLinks,
                     {NcclSendChannels(bytes, num_devices, kNcclChannels), kNcclChannelGbPerS});
}

}  // namespace xla_shmem
