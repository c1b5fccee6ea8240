// The offsets and sizes of a ragged all-to-all, and the errors of wrong ones.
#ifndef XLA_SHMEM_THUNKS_CPU_RAGGED_NUMBERS_H_
#define XLA_SHMEM_THUNKS_CPU_RAGGED_NUMBERS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace xla_shmem {

// Of one member. Slice s that goes to member m, or comes from it, has the index m · slices + s in all four arrays.
struct RaggedNumbers {
  std::vector<int64_t> input_offsets, send_sizes;  // rows of the input
  std::vector<int64_t> output_offsets;             // rows of the receiver's result
  std::vector<int64_t> receive_sizes;
};

// Where a slice goes.
struct RaggedPlace {
  int64_t offset;  // in the receiver's result
  int64_t rows;
};

// Throws std::runtime_error with array, index and value if a number is wrong.
class RaggedChecks {
 public:
  // `group`: PEs. `slices`: for each member. `output_rows`: the same on every member.
  RaggedChecks(const std::vector<int>& group, size_t slices, int64_t input_rows, int64_t output_rows)
      : group_(group), slices_(slices), input_rows_(input_rows), output_rows_(output_rows) {}

  // What a member knows by itself.
  void CheckOwn(const RaggedNumbers& numbers) const;
  // Member `me` expects from `member` what that one sends to it; `places`: one for each slice.
  void CheckComing(const RaggedNumbers& numbers, size_t me, size_t member, const RaggedPlace* places) const;

 private:
  void CheckRows(const char* offsets, int64_t offset, const char* sizes, int64_t size, size_t index, int64_t rows,
                 const char* buffer) const;
  std::string PeOf(size_t member) const { return "PE " + std::to_string(group_[member]); }

  const std::vector<int> group_;
  const size_t slices_;
  const int64_t input_rows_, output_rows_;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_RAGGED_NUMBERS_H_
