#include "xla_patch/assigner/tuning.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <tuple>
#include <utility>

namespace xla_shmem {
namespace {

auto CurveOf(const TuningRow& row) { return std::make_tuple(row.op, row.domains, row.group_size, row.element_type); }

bool Before(const TuningRow& a, const TuningRow& b) {
  return std::make_pair(CurveOf(a), a.bytes) < std::make_pair(CurveOf(b), b.bytes);
}

std::string Describe(const TuningRow& row) {
  return std::string(OpName(row.op)) + " of " + std::to_string(row.bytes) + " B (" + ElementTypeName(row.element_type) +
         ", groups of " + std::to_string(row.group_size) +
         (row.domains == 1 ? "" : ", " + std::to_string(row.domains) + " NVLink domains") + ")";
}

bool IsTime(const BackendTime& time) { return 0 < time.low_us && time.low_us <= time.us && time.us <= time.high_us; }

bool Holds(const BackendTime& interval, double us) { return interval.low_us <= us && us <= interval.high_us; }

Status CheckRow(const TuningRow& row) {
  if (ElementBits(row.element_type) == 0) {
    return Status::Error("element type " + std::to_string(static_cast<int32_t>(row.element_type)) + " has no size");
  }
  if (row.group_size < 1 || row.bytes < 1 || row.domains < 1) {
    return Status::Error(Describe(row) + ": bytes, domains and group size must be at least 1");
  }
  if (!IsTime(row.nvshmem) || !IsTime(row.on_default)) {
    return Status::Error(Describe(row) + ": times must be above 0 µs, and a median within its interval");
  }
  if (std::isinf(row.nvshmem.high_us) || std::isinf(row.on_default.low_us) != std::isinf(row.on_default.high_us)) {
    return Status::Error(Describe(row) + ": times must be finite, or all of the default backend infinite");
  }
  for (const auto& [way, time] : row.ways) {
    if (way == Way::kNvshmem || !IsTime(time) || std::isinf(time.high_us)) {
      return Status::Error(Describe(row) + ": times of " + InfoOf(way).word + " must be finite, and above 0 µs");
    }
  }
  return Status();
}

// Predicates count as integers; complex numbers count as floats.
bool IsInteger(ElementType element_type) {
  const char initial = ElementTypeName(element_type).front();
  return initial == 's' || initial == 'u' || initial == 'p';
}

double Ratio(int64_t measured, int64_t wanted) {
  wanted = std::max<int64_t>(wanted, 1);
  return static_cast<double>(std::max(measured, wanted)) / static_cast<double>(std::min(measured, wanted));
}

// Ordered as Find chooses.
auto Distance(const TuningRow& row, ElementType element_type, int64_t group_size, int64_t domains) {
  return std::make_tuple(Ratio(row.domains, domains), -row.domains, Ratio(row.group_size, group_size), -row.group_size,
                         row.element_type != element_type, IsInteger(row.element_type) != IsInteger(element_type),
                         std::abs(ElementBits(row.element_type) - ElementBits(element_type)), row.element_type);
}

// Interpolates between two times in logarithms; `t` is the share of `to`.
BackendTime Interpolate(const BackendTime& from, const BackendTime& to, double t) {
  const auto between = [t](double a, double b) { return std::exp((1 - t) * std::log(a) + t * std::log(b)); };
  return {between(from.us, to.us), between(from.low_us, to.low_us), between(from.high_us, to.high_us)};
}

// Of the ways that both have.
WayTimes Interpolate(const WayTimes& from, const WayTimes& to, double t) {
  WayTimes between;
  for (const auto& [way, time] : from) {
    for (const auto& [other, later] : to) {
      if (other == way) between.emplace_back(way, Interpolate(time, later, t));
    }
  }
  return between;
}

}  // namespace

Faster Compare(const BackendTime& nvshmem, const BackendTime& on_default) {
  if (Holds(nvshmem, on_default.us) || Holds(on_default, nvshmem.us)) return Faster::kNeither;
  return nvshmem.us < on_default.us ? Faster::kNvshmem : Faster::kDefault;
}

Result<TuningTable> TuningTable::Create(std::vector<TuningRow> rows) {
  for (TuningRow& row : rows) {
    XLA_SHMEM_RETURN_IF_ERROR(CheckRow(row));
    std::sort(row.ways.begin(), row.ways.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  std::sort(rows.begin(), rows.end(), Before);
  const auto repeated =
      std::adjacent_find(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return !Before(a, b); });
  if (repeated != rows.end()) return Status::Error(Describe(*repeated) + " occurs twice");
  TuningTable table;
  table.rows_ = std::move(rows);
  return table;
}

std::optional<Estimate> TuningTable::Find(CollectiveOp op, ElementType element_type, int64_t group_size, int64_t bytes,
                                          int64_t domains) const {
  const TuningRow* nearest = nullptr;  // the first of its curve, which has the smallest size
  const TuningRow* previous = nullptr;
  for (const TuningRow& row : rows_) {
    const bool begins_curve = previous == nullptr || CurveOf(row) != CurveOf(*previous);
    previous = &row;
    const bool is_of_kind = row.op == op && (row.domains > 1) == (domains > 1);
    if (is_of_kind && begins_curve &&
        (nearest == nullptr ||
         Distance(row, element_type, group_size, domains) < Distance(*nearest, element_type, group_size, domains))) {
      nearest = &row;
    }
  }
  if (nearest == nullptr) return std::nullopt;
  const TuningRow* const end = rows_.data() + rows_.size();
  const TuningRow* upper = nearest;
  while (upper->bytes < bytes && upper + 1 != end && CurveOf(upper[1]) == CurveOf(*nearest)) ++upper;
  Estimate estimate{upper->nvshmem, upper->on_default, upper->element_type, upper->group_size,
                    upper->domains, upper->bytes,      upper->bytes,        upper->ways};
  if (upper != nearest && bytes < upper->bytes) {
    const TuningRow& lower = upper[-1];
    const double t = std::log(static_cast<double>(bytes) / static_cast<double>(lower.bytes)) /
                     std::log(static_cast<double>(upper->bytes) / static_cast<double>(lower.bytes));
    estimate.nvshmem = Interpolate(lower.nvshmem, upper->nvshmem, t);
    estimate.on_default = Interpolate(lower.on_default, upper->on_default, t);
    estimate.ways = Interpolate(lower.ways, upper->ways, t);
    estimate.smaller = lower.bytes;
  }
  return estimate;
}

}  // namespace xla_shmem
