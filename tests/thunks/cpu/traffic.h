// One PE's part in one collective: operands from which every PE can compute the results, and a check of the results.
#ifndef XLA_SHMEM_TESTS_THUNKS_CPU_TRAFFIC_H_
#define XLA_SHMEM_TESTS_THUNKS_CPU_TRAFFIC_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "xla_patch/thunks/cpu/collectives.h"
#include "xla_patch/thunks/reduction.h"

namespace xla_shmem::testing {

// The place of the results: apart from the operands, in the same buffers, in the buffer of the next operand, or 24
// bytes behind the operand.
enum class Placement { kApart, kInPlace, kRotated, kShifted };

// Operand and result i, and the offset of the smaller in the larger if they are in place.
struct BufferPair {
  size_t operand_bytes;
  size_t result_bytes;
  size_t operand_at = 0;
  size_t result_at = 0;
};

// Operands and results in one allocation, with guard bytes between them.
class Buffers {
 public:
  Buffers(const std::vector<BufferPair>& pairs, Placement placement);
  Buffers(const std::vector<size_t>& bytes, Placement placement);
  char* operand(size_t i) { return memory_.data() + operands_[i]; }
  char* result(size_t i) { return memory_.data() + results_[i]; }
  std::vector<const char*> operands();
  std::vector<char*> results();
  // False if bytes outside the buffers have changed.
  bool GuardsIntact() const;

 private:
  std::vector<char> memory_;
  std::vector<size_t> operands_, results_;
  std::vector<std::pair<size_t, size_t>> in_use_;  // [begin, end), sorted; everything else is a guard
};

// The interface of all transfers.
class Transfer {
 public:
  virtual ~Transfer() = default;
  virtual std::unique_ptr<Operation> Begin(const PeContext& context) = 0;
  // Called after the operation. Returns "" or the error in the results.
  virtual std::string Verdict() = 0;
};

// The id of an operation in copy `number` of its program, and not in copy 0. Contents are equal in all copies.
uint64_t InCopy(uint64_t operation, int number);

// The seed of operand `index` of `pe` in the operation of `key`.
uint64_t Seed(MessageKey key, int pe, size_t index);
void Fill(uint64_t seed, char* memory, size_t bytes);
// Returns "" if `result` equals `expected`, else PE, position and values.
std::string Compare(int pe, size_t index, const std::vector<char>& expected, const char* result);

class PermuteTransfer : public Transfer {
 public:
  PermuteTransfer(MessageKey key, int pe, const std::vector<int>& target_of, std::vector<size_t> bytes,
                  Placement placement);
  std::unique_ptr<Operation> Begin(const PeContext& context) override;
  std::string Verdict() override;

 private:
  MessageKey key_;
  int pe_, source_, target_;
  std::vector<int> pairs_;
  std::vector<size_t> bytes_;
  Buffers buffers_;
};

struct Reduction {
  ReductionKind kind = ReductionKind::kSum;
  std::vector<int> group;
  std::vector<ElementType> types;
  std::vector<size_t> elements;
};

class AllReduceTransfer : public Transfer {
 public:
  AllReduceTransfer(MessageKey key, int pe, Reduction reduction, Placement placement);
  std::unique_ptr<Operation> Begin(const PeContext& context) override;
  // Returns "" if every result has the bits that Reduce gives for the operands of all members in group order.
  std::string Verdict() override;
  Buffers& buffers() { return buffers_; }

 private:
  MessageKey key_;
  int pe_;
  Reduction reduction_;
  std::vector<size_t> bytes_;
  Buffers buffers_;
};

// The content of operand `index` of `pe` in the all-reduce of this key.
std::vector<char> AllReduceOperand(MessageKey key, int pe, size_t index, ElementType type, size_t elements);

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_THUNKS_CPU_TRAFFIC_H_
