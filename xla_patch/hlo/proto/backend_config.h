#ifndef XLA_SHMEM_HLO_PROTO_BACKEND_CONFIG_H_
#define XLA_SHMEM_HLO_PROTO_BACKEND_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "xla_patch/assigner/assigner.h"
#include "xla_patch/assigner/record.h"

namespace xla_shmem::hlo {

// A Payload: bytes value = 1, or int64 id = 2 into HloModuleProto.payloads.
std::string_view ResolvePayload(const std::vector<std::string_view>& payloads, std::string_view payload);

// The backend_config of an HloInstructionProto, in its own field or as a payload; empty if it has none.
std::string_view BackendConfigOf(const std::vector<std::string_view>& payloads, std::string_view instruction);

// The backend that stock XLA:GPU recorded in an instruction's backend_config, the JSON of a GpuBackendConfig:
//
//   {..., "collective_backend_config": {..., "backend": "NVSHMEM", ...}, ...}
//
// Only this path is read: releases differ in the other members and leave default values out. None if there is no
// collective_backend_config, or if the text is not JSON.
std::optional<Backend> ReadStockBackend(std::string_view json);

// The kernel of its own by which XLA:GPU runs a collective, from the same JSON: {"collective_backend_config": {...,
// "kernel_strategy": "KERNEL_STRATEGY_TRITON_ONE_SHOT"}}.
enum class XlaKernel { kNone, kOneShot, kTwoShot };
XlaKernel ReadXlaKernel(std::string_view json);

// Sets the mode of `choice`, which is that of a flag xla_gpu_*_mode, and whether it is sync, from the same path.
void ReadModeAndSync(std::string_view json, XlaChoice* choice);

// How often the body of a while runs, if XLA knows the number and recorded it in the backend_config, the JSON of a
// WhileLoopBackendConfig: {"known_trip_count": {"n": "32"}, ...}.
std::optional<int64_t> ReadTripCount(std::string_view json);

// Dimensions of the left operand that a matrix product of XLA:GPU's sums over, from the backend_config of its custom
// call: {"gemm_backend_config": {"dot_dimension_numbers": {"lhs_contracting_dimensions": ["1"], ...}, ...}, ...}.
std::optional<std::vector<int64_t>> ReadContractedDimensions(std::string_view json);

// Attention in one kernel of cuDNN's, from the backend_config of its custom call: {"cudnn_fmha_backend_config":
// {"intermediate_tensor_shape": {"dimensions": ["1", "32", "8192", "8192"], ...}, "mask_type": "CAUSAL", ...}, ...}.
// None also if only the data tell which scores are computed, or if there is a sliding window.
struct FusedAttention {
  std::vector<int64_t> scores;  // dimensions: batch, heads, queries, keys
  bool is_causal = false;
};
std::optional<FusedAttention> ReadFusedAttention(std::string_view json);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_BACKEND_CONFIG_H_
