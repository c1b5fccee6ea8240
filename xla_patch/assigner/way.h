// The ways in which a GPU job can run a collective.
#ifndef XLA_SHMEM_ASSIGNER_WAY_H_
#define XLA_SHMEM_ASSIGNER_WAY_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "xla_patch/types/collective_op.h"

namespace xla_shmem {

//   kNvshmem        our transport
//   kNccl           NCCL with ordinary buffers, also where XLA would take its own kernel
//   kOneSided       NCCL's put and signal (ncclPutSignal)
//   kNcclSymmetric  NCCL's kernels on symmetric memory, which need windows
//   kPeerCopies     copies between the GPUs of one process
//   kKernels        XLA's one-shot and two-shot kernels
enum class Way : uint8_t { kNvshmem, kNccl, kOneSided, kNcclSymmetric, kPeerCopies, kKernels };

struct WayInfo {
  Way way;
  const char* word;  // in XLA_SHMEM_BACKENDS and tuning tables
  const char* name;  // in sentences, and of `inspect`
};
constexpr std::array<WayInfo, 6> kWays = {{{Way::kNvshmem, "nvshmem", "NVSHMEM"},
                                           {Way::kNccl, "nccl", "NCCL"},
                                           {Way::kOneSided, "one-sided", "one-sided"},
                                           {Way::kNcclSymmetric, "nccl-symmetric", "NCCL symmetric"},
                                           {Way::kPeerCopies, "peer-copies", "peer copies"},
                                           {Way::kKernels, "kernels", "own kernel"}}};
constexpr const WayInfo& InfoOf(Way way) { return kWays[static_cast<size_t>(way)]; }
std::optional<Way> WayOfWord(std::string_view word);

// A set of ways: bits.
using Ways = uint32_t;
constexpr Ways BitOf(Way way) { return Ways{1} << static_cast<uint32_t>(way); }
constexpr Ways kEveryWay = (Ways{1} << kWays.size()) - 1;

// The flags of XLA that make all collectives of an op run in a way, "--xla_...=value"; empty if nothing does. XLA must
// know the first; the others are needed on those releases that know them.
std::vector<std::string> FlagsOf(Way way, CollectiveOp op);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_ASSIGNER_WAY_H_
