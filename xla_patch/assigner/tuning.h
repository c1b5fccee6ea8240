#ifndef XLA_SHMEM_ASSIGNER_TUNING_H_
#define XLA_SHMEM_ASSIGNER_TUNING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

// How long a backend takes for a collective, µs: the median, and the interval that it lies in as far as was measured.
// All infinite if this backend does not run the collective.
struct BackendTime {
  double us = 0;
  double low_us = 0;
  double high_us = 0;
};

// By the medians, unless one of them lies in the other's interval.
enum class Faster { kNvshmem, kDefault, kNeither };
Faster Compare(const BackendTime& nvshmem, const BackendTime& on_default);

// One line of a table: both backends at one size.
struct TuningRow {
  CollectiveOp op = CollectiveOp::kAllReduce;
  ElementType element_type = ElementType::kInvalid;
  int64_t group_size = 0;  // in devices; of a permute, those that pairs connect
  int64_t bytes = 0;       // of the result, as in CollectiveSpec
  BackendTime nvshmem;
  BackendTime on_default;
};

// What a table says of a collective.
struct Estimate {
  BackendTime nvshmem;
  BackendTime on_default;
  // What it was measured with.
  ElementType element_type = ElementType::kInvalid;
  int64_t group_size = 0;
  // The sizes it is interpolated between; equal if it is one that was measured. Outside the measured range both are the
  // nearest end.
  int64_t smaller = 0;
  int64_t larger = 0;
};

// What `xla-shmem tune` measured on a machine. Immutable once created.
class TuningTable {
 public:
  // An empty table: nothing was measured.
  TuningTable() = default;

  // Takes the rows in any order. An error if a row occurs twice or a number is impossible.
  static Result<TuningTable> Create(std::vector<TuningRow> rows);

  // None if nothing was measured of the op. Otherwise of the curve with the nearest group size (by ratio, the larger of
  // two that are equally near), and of those the nearest element type: the same; the nearest in width of the same kind
  // (integers, or floats and complex numbers); any. Between two sizes times are interpolated linearly in the
  // logarithms: hosts agree as far as their log and exp do, which is to the last bits of a time.
  std::optional<Estimate> Find(CollectiveOp op, ElementType element_type, int64_t group_size, int64_t bytes) const;

  int64_t num_rows() const { return static_cast<int64_t>(rows_.size()); }

 private:
  std::vector<TuningRow> rows_;  // sorted by op, group size, element type, bytes
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_ASSIGNER_TUNING_H_
