// Times of collectives in an NVLink domain that nothing has measured yet, from published constants: the one model for
// the rules, `xla-shmem inspect`, `tune` and `predict`. Our side has never run on NVLink. The .cc file has
// the formulas and their sources.
#ifndef XLA_SHMEM_ASSIGNER_COST_MODEL_H_
#define XLA_SHMEM_ASSIGNER_COST_MODEL_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "xla_patch/types/collective_op.h"

namespace xla_shmem {

// GPUs by architecture, which tells the generation of NVLink. kUnknown: there is no model, as on CPU.
enum class GpuGeneration : uint8_t { kUnknown, kHopper, kBlackwell };

const char* GpuGenerationName(GpuGeneration gpu);  // "hopper", "blackwell"; "" for kUnknown
std::optional<GpuGeneration> GpuGenerationNamed(std::string_view name);
// Of a compute capability. kUnknown for generations before Hopper.
GpuGeneration GpuGenerationOf(int compute_capability_major);

struct GpuLinks {
  double nvlink_gb_per_s;  // in one direction
  double memory_gb_per_s;  // that copies within the GPU reach
};

// NCCL's channels for sends and receives inside an NVLink domain of H100s: log in NVIDIA/nccl issue 1781.
constexpr int64_t kNcclChannels = 32;

// Channels of one send in a communicator of `num_devices`, at most `most` for a peer: the more devices, the fewer for
// each peer, and twice as many for each doubling of the bytes above 16 MiB a channel (NCCL 2.30, addP2pToPlan in
// src/enqueue.cc and P2P_NVL_CHUNKSIZE in src/init.cc).
int64_t NcclSendChannels(int64_t bytes, int64_t num_devices, int64_t most);

// The share of NVLink's bandwidth that NCCL's kernels reach; not in all-reduces. Fitted (cost_model.cc).
constexpr double kNcclLinkShare = 0.75;

// How NCCL sends to one peer.
struct NcclSend {
  int64_t channels;
  double channel_gb_per_s;
};

// The shares are those of NVLink's bandwidth while bytes move.
struct ExpectedTimes {
  double nvshmem_us = 0, nvshmem_share = 0;
  double nccl_us = 0, nccl_share = 0;
};

// The times of one collective in one NVLink domain, with the link for itself. None without a model of the op, or for
// groups of one.
//
//   bytes       of the result, as in CollectiveSpec
//   group_size  devices of a group; of a permute, those that pairs connect
//   send        of a permute
std::optional<ExpectedTimes> ExpectTimes(CollectiveOp op, int64_t bytes, int64_t group_size, const GpuLinks& links,
                                         const NcclSend& send);

// The same on GPUs of a generation, with sends as measured one at a time. None without a model of the GPU.
//
//   num_devices  devices of the module: NCCL's communicator of a permute
std::optional<ExpectedTimes> ExpectTimes(CollectiveOp op, int64_t bytes, int64_t group_size, int64_t num_devices,
                                         GpuGeneration gpu);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_ASSIGNER_COST_MODEL_H_
