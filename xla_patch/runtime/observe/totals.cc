#include "xla_patch/runtime/observe/totals.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <vector>

namespace xla_shmem::observe {
namespace {

std::string Bytes(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  char text[32];
  snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

double Milliseconds(uint64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e6; }

}  // namespace

void Statistics::Add(const std::string& op, const std::string& name, const Measurement& measurement) {
  std::lock_guard<std::mutex> lock(mutex_);
  Row& row = rows_[{name, op}];
  ++row.calls;
  row.inline_calls += measurement.is_inline;
  row.bytes += measurement.bytes;
  row.total_ns += measurement.total_ns;
  row.copied_ns += measurement.copied_ns.value_or(0);
  row.longest_ns = std::max(row.longest_ns, measurement.total_ns);
}

std::string Statistics::Line(const Row& row, const std::string& op, const std::string& name) const {
  char text[160];
  if (on_gpu_) {
    const double microseconds = static_cast<double>(row.total_ns) / 1e3;
    snprintf(text, sizeof(text), "  %9" PRIu64 " %11s %11.3f %10.1f %10.1f  ", row.calls, Bytes(row.bytes).c_str(),
             Milliseconds(row.total_ns), row.calls == 0 ? 0.0 : microseconds / static_cast<double>(row.calls),
             static_cast<double>(row.longest_ns) / 1e3);
    return text + op + "  " + name + "\n";
  }
  snprintf(text, sizeof(text), "  %9" PRIu64 " %11s %11.3f %11.3f %11.3f %10.1f %6.1f%%  ", row.calls,
           Bytes(row.bytes).c_str(), Milliseconds(row.total_ns),
           Milliseconds(row.total_ns - std::min(row.copied_ns, row.total_ns)), Milliseconds(row.copied_ns),
           static_cast<double>(row.longest_ns) / 1e3,
           row.calls == 0 ? 0.0 : 100.0 * static_cast<double>(row.inline_calls) / static_cast<double>(row.calls));
  return text + op + "  " + name + "\n";
}

std::string Statistics::Table(const std::string& title) const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (rows_.empty()) return "";
  std::vector<const std::pair<const std::pair<std::string, std::string>, Row>*> order;
  Row sum;
  for (const auto& row : rows_) {
    order.push_back(&row);
    sum.calls += row.second.calls;
    sum.inline_calls += row.second.inline_calls;
    sum.bytes += row.second.bytes;
    sum.total_ns += row.second.total_ns;
    sum.copied_ns += row.second.copied_ns;
    sum.longest_ns = std::max(sum.longest_ns, row.second.longest_ns);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->second.total_ns > b->second.total_ns; });
  std::string table =
      title + (on_gpu_
                   ? "\n      calls       bytes      GPU ms    mean us longest us  collective\n"
                   : "\n      calls       bytes    total ms   waited ms    moved ms longest us inline  collective\n");
  for (const auto* row : order) table += Line(row->second, row->first.second, row->first.first);
  return table + Line(sum, "all", "");
}

}  // namespace xla_shmem::observe
