#ifndef XLA_SHMEM_ASSIGNER_TUNING_H_
#define XLA_SHMEM_ASSIGNER_TUNING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/assigner/way.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

// The time of a backend for a collective, in µs: the median and its confidence interval. All infinite if this backend
// does not run the collective.
struct BackendTime {
  double us = 0;
  double low_us = 0;
  double high_us = 0;
};

// Compares the medians. kNeither if one of them lies in the other's interval.
enum class Faster { kNvshmem, kDefault, kNeither };
Faster Compare(const BackendTime& nvshmem, const BackendTime& on_default);

// Times of ways other than NVSHMEM and XLA's own choice, by their order.
using WayTimes = std::vector<std::pair<Way, BackendTime>>;

// One line of a table: both backends at one size. If groups span several NVLink domains, `nvshmem` is the time of the
// divided collective (hierarchy.h), and `on_default` that of the whole one.
struct TuningRow {
  CollectiveOp op = CollectiveOp::kAllReduce;
  ElementType element_type = ElementType::kInvalid;
  int64_t group_size = 0;  // in devices; of a permute, those that pairs connect
  int64_t bytes = 0;       // of the result, as in CollectiveSpec
  BackendTime nvshmem;
  BackendTime on_default;
  int64_t domains = 1;  // that a group spans (Hierarchy::num_domains)
  WayTimes ways = {};   // NOLINT(readability-redundant-member-init): may be left out
};

// The times that a table gives for a collective.
struct Estimate {
  BackendTime nvshmem;
  BackendTime on_default;
  // The measurement that it comes from.
  ElementType element_type = ElementType::kInvalid;
  int64_t group_size = 0;
  int64_t domains = 1;
  // It is interpolated between these sizes; they are equal if the size was measured. Outside the measured range both
  // are the nearest end.
  int64_t smaller = 0;
  int64_t larger = 0;
  WayTimes ways = {};  // that were measured at both sizes. NOLINT(readability-redundant-member-init)
};

// The measurements of `xla-shmem tune` on one machine. Immutable.
class TuningTable {
 public:
  // An empty table: nothing was measured.
  TuningTable() = default;

  // Takes the rows in any order. An error if a row occurs twice or a number is impossible.
  static Result<TuningTable> Create(std::vector<TuningRow> rows);

  // None if the op was not measured in groups of one domain, or of several if `domains` is more than 1. Takes the curve
  // with the nearest number of domains, of those the nearest group size (both by ratio; the larger of two that are
  // equally near), and of those the nearest element type: the same; the nearest in width of the same kind
  // (integers, or floats and complex numbers); any. Between two sizes times are interpolated linearly in the
  // logarithms: hosts may differ in the last bits of a time, as their log and exp do.
  std::optional<Estimate> Find(CollectiveOp op, ElementType element_type, int64_t group_size, int64_t bytes,
                               int64_t domains = 1) const;

  int64_t num_rows() const { return static_cast<int64_t>(rows_.size()); }

 private:
  std::vector<TuningRow> rows_;  // sorted by op, domains, group size, element type, bytes
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_ASSIGNER_TUNING_H_
