#ifndef XLA_SHMEM_HLO_PROTO_OUTPUT_ALIASING_H_
#define XLA_SHMEM_HLO_PROTO_OUTPUT_ALIASING_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xla_shmem::hlo {

// One xla.OutputOperandAliasing: this part of the result is the same buffer as that part of an operand.
struct Aliasing {
  std::vector<int64_t> output_index;
  int64_t operand = 0;
  std::vector<int64_t> operand_index;
};

std::string EncodeAliasing(const Aliasing& aliasing);

// False if malformed.
bool DecodeAliasing(std::string_view proto, Aliasing* aliasing);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_OUTPUT_ALIASING_H_
