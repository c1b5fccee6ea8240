#include "xla_patch/bindings/python/tuning_bindings.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/assigner/tuning.h"
#include "xla_patch/bindings/python/pass_bindings.h"

namespace xla_shmem {
namespace {

namespace nb = nanobind;

// Median and the ends of its interval.
using TimeTuple = std::tuple<double, double, double>;
// op, dtype, group size, bytes; on NVSHMEM; on DEFAULT, none if it does not run it.
using RowTuple = std::tuple<std::string, std::string, int64_t, int64_t, TimeTuple, std::optional<TimeTuple>>;

CollectiveOp ParseOp(const std::string& name) {
  const std::optional<CollectiveOp> op = OpNamed(name);
  if (!op.has_value()) {
    throw nb::value_error(("unknown op \"" + name + "\"").c_str());
  }
  return *op;
}

ElementType ParseDtype(const std::string& name) {
  const std::optional<ElementType> type = ElementTypeNamed(name);
  if (!type.has_value()) {
    throw nb::value_error(("unknown dtype \"" + name + "\"").c_str());
  }
  return *type;
}

BackendTime MakeTime(const TimeTuple& tuple) { return {std::get<0>(tuple), std::get<1>(tuple), std::get<2>(tuple)}; }

TuningTable MakeTable(const std::vector<RowTuple>& tuples) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<TuningRow> rows;
  rows.reserve(tuples.size());
  for (const auto& [op, dtype, group_size, bytes, nvshmem, on_default] : tuples) {
    rows.push_back({ParseOp(op), ParseDtype(dtype), group_size, bytes, MakeTime(nvshmem),
                    MakeTime(on_default.value_or(TimeTuple(kNever, kNever, kNever)))});
  }
  return ValueOrThrow(TuningTable::Create(std::move(rows)));
}

std::optional<std::string> FasterOf(const TuningTable& table, const std::string& op, const std::string& dtype,
                                    int64_t group_size, int64_t bytes) {
  const std::optional<Estimate> estimate = table.Find(ParseOp(op), ParseDtype(dtype), group_size, bytes);
  if (!estimate.has_value()) {
    return std::nullopt;
  }
  switch (Compare(estimate->nvshmem, estimate->on_default)) {
    case Faster::kNvshmem:
      return "NVSHMEM";
    case Faster::kDefault:
      return "DEFAULT";
    case Faster::kNeither:
      break;
  }
  return "neither";
}

}  // namespace

void BindTuning(nb::module_& m) {
  nb::class_<TuningTable>(m, "TuningTable", "Times of collectives on both backends, for profile \"tuned\".")
      .def(
          "__init__",
          [](TuningTable* self, const std::vector<RowTuple>& rows) { new (self) TuningTable(MakeTable(rows)); },
          nb::arg("rows"),
          "From tuples (op, dtype, group_size, bytes, nvshmem, default), times as (median, low, high) in µs; default "
          "None: not run. ValueError if a name is unknown, a number is out of range, or a line occurs twice.")
      .def_prop_ro("num_rows", &TuningTable::num_rows, "Number of lines.")
      .def("faster", &FasterOf, nb::arg("op"), nb::arg("dtype"), nb::arg("group_size"), nb::arg("bytes"),
           "\"NVSHMEM\", \"DEFAULT\", \"neither\" (one median lies in the other's interval), or None if the op was not "
           "measured.");
}

}  // namespace xla_shmem
