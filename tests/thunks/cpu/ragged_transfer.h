// One PE's transfer of a ragged all-to-all (traffic.h).
#ifndef XLA_SHMEM_TESTS_THUNKS_CPU_RAGGED_TRANSFER_H_
#define XLA_SHMEM_TESTS_THUNKS_CPU_RAGGED_TRANSFER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/thunks/cpu/traffic.h"
#include "xla_patch/thunks/cpu/ragged_all_to_all.h"

namespace xla_shmem::testing {

struct RaggedRows {
  size_t row_bytes = 4;
  int64_t most = 10;  // rows of a slice
  size_t slices = 1;  // for each member
  bool overlapping = false;
};

// What every member sends to every other: with the same key, all PEs draw the same. A third of the slices is empty,
// with offsets that lie nowhere. Slices have gaps, or overlap in operands and results.
class RaggedTransfer : public Transfer {
 public:
  // kRotated: the result begins where the input does.
  RaggedTransfer(MessageKey key, int pe, std::vector<int> group, RaggedRows rows, Placement placement);
  std::unique_ptr<Operation> Begin(const PeContext& context) override;
  std::string Verdict() override;

  // The arguments that Begin uses, to make one of them wrong.
  RaggedAllToAllArguments& arguments() { return arguments_; }
  bool GuardsIntact() const { return buffers_.GuardsIntact(); }

 private:
  std::vector<char> Content(int pe, size_t index) const;

  MessageKey key_;
  int pe_;
  std::vector<int> group_;
  RaggedRows rows_;
  size_t bytes_;                        // of input, output and result
  std::vector<RaggedNumbers> numbers_;  // of each member
  Buffers buffers_;
  RaggedAllToAllArguments arguments_;
};

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_THUNKS_CPU_RAGGED_TRANSFER_H_
