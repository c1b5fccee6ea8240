// One PE's transfer of an all-gather, reduce-scatter, all-to-all or broadcast (traffic.h).
#ifndef XLA_SHMEM_TESTS_THUNKS_CPU_GROUP_TRANSFERS_H_
#define XLA_SHMEM_TESTS_THUNKS_CPU_GROUP_TRANSFERS_H_

#include <memory>
#include <string>
#include <vector>

#include "tests/thunks/cpu/traffic.h"

namespace xla_shmem::testing {

// `bytes`: of each operand.
class AllGatherTransfer : public Transfer {
 public:
  AllGatherTransfer(MessageKey key, int pe, std::vector<int> group, std::vector<size_t> bytes, Placement placement);
  std::unique_ptr<Operation> Begin(const PeContext& context) override;
  std::string Verdict() override;

 private:
  MessageKey key_;
  int pe_;
  std::vector<int> group_;
  std::vector<size_t> bytes_;
  Buffers buffers_;
};

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

// `bytes`: of each buffer for one member. In the array form the buffers of all members are contiguous.
class AllToAllTransfer : public Transfer {
 public:
  AllToAllTransfer(MessageKey key, int pe, std::vector<int> group, std::vector<size_t> bytes, bool array_form,
                   Placement placement);
  std::unique_ptr<Operation> Begin(const PeContext& context) override;
  std::string Verdict() override;

 private:
  char* operand(size_t member, size_t buffer);
  char* result(size_t member, size_t buffer);

  MessageKey key_;
  int pe_;
  std::vector<int> group_;
  std::vector<size_t> bytes_;
  bool array_form_;
  Buffers buffers_;
};

// `group`: the root first, or empty.
class BroadcastTransfer : public Transfer {
 public:
  BroadcastTransfer(MessageKey key, int pe, std::vector<int> group, std::vector<size_t> bytes, Placement placement);
  std::unique_ptr<Operation> Begin(const PeContext& context) override;
  std::string Verdict() override;

 private:
  MessageKey key_;
  int pe_;
  std::vector<int> group_;
  std::vector<size_t> bytes_;
  Buffers buffers_;
};

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_THUNKS_CPU_GROUP_TRANSFERS_H_
