// One PE's transfer of a collective of groups (traffic.h). Ragged all-to-alls have ragged_transfer.h.
#ifndef XLA_SHMEM_TESTS_THUNKS_CPU_GROUP_TRANSFERS_H_
#define XLA_SHMEM_TESTS_THUNKS_CPU_GROUP_TRANSFERS_H_

#include <memory>
#include <string>
#include <vector>

#include "tests/thunks/cpu/traffic.h"

namespace xla_shmem::testing {

// Ops of groups that move bytes and do not reduce them, but for ragged all-to-alls. In the order of the table.
std::vector<CollectiveOp> MovingGroupOps();

// `op`: one of MovingGroupOps. `group`: of a broadcast the root first, or empty. `bytes`: of each operand; of an
// all-to-all of each buffer for one member. `array_form`: of an all-to-all, whose buffers of all members are then
// contiguous.
std::unique_ptr<Transfer> MakeMovingTransfer(CollectiveOp op, MessageKey key, int pe, std::vector<int> group,
                                             std::vector<size_t> bytes, Placement placement, bool array_form = true);

// `reduction.elements`: of each result.
class ReduceScatterTransfer : public Transfer {
 public:
  ReduceScatterTransfer(MessageKey key, int pe, Reduction reduction, Placement placement);
  std::unique_ptr<Operation> Begin(const PeContext& context) override;
  std::string Verdict() override;

 private:
  MessageKey key_;
  int pe_;
  Reduction reduction_;
  size_t me_;
  std::vector<size_t> bytes_;
  Buffers buffers_;
};

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_THUNKS_CPU_GROUP_TRANSFERS_H_
