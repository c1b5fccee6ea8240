#include "xla_patch/runtime/observe/totals.h"

#include <algorithm>
#include <cassert>
#include <cinttypes>
#include <cstdio>
#include <tuple>
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

double Microseconds(uint64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; }
double Milliseconds(uint64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e6; }

std::string Line(bool on_gpu, const Totals& of, const std::string& op, const std::string& name) {
  assert(of.calls > 0);
  const auto calls = static_cast<double>(of.calls);
  char text[160];
  int length = snprintf(text, sizeof(text), "  %9" PRIu64 " %11s %11.3f", of.calls, Bytes(of.bytes).c_str(),
                        Milliseconds(of.total_ns));
  if (on_gpu) {
    snprintf(text + length, sizeof(text) - length, " %10.1f %10.1f  ", Microseconds(of.total_ns) / calls,
             Microseconds(of.longest_ns));
  } else if (of.measured_calls == 0) {
    snprintf(text + length, sizeof(text) - length, " %11s %11s %10.1f %7s  ", "-", "-", Microseconds(of.longest_ns),
             "-");
  } else {
    snprintf(text + length, sizeof(text) - length, " %11.3f %11.3f %10.1f %6.1f%%  ", Milliseconds(of.waited_ns),
             Milliseconds(of.moved_ns), Microseconds(of.longest_ns),
             100.0 * static_cast<double>(of.inline_calls) / static_cast<double>(of.measured_calls));
  }
  return text + op + "  " + name + "\n";
}

}  // namespace

Totals Totals::Of(const Finished& execution) {
  const uint64_t total_ns = execution.total_ns();
  Totals totals;
  totals.calls = 1;
  totals.bytes = execution.bytes;
  totals.total_ns = totals.longest_ns = total_ns;
  if (execution.moved_ns.has_value()) {
    totals.measured_calls = 1;
    totals.inline_calls = execution.is_inline ? 1 : 0;
    totals.moved_ns = *execution.moved_ns;
    totals.waited_ns = total_ns - std::min(totals.moved_ns, total_ns);
  }
  return totals;
}

void Totals::Add(const Totals& other) {
  calls += other.calls;
  inline_calls += other.inline_calls;
  bytes += other.bytes;
  total_ns += other.total_ns;
  waited_ns += other.waited_ns;
  moved_ns += other.moved_ns;
  measured_calls += other.measured_calls;
  longest_ns = std::max(longest_ns, other.longest_ns);
}

std::string TotalsTable(const std::string& title, bool on_gpu, const TotalsByCollective& totals) {
  if (totals.empty()) return "";
  std::vector<const TotalsByCollective::value_type*> order;
  Totals all;
  for (const auto& row : totals) {
    order.push_back(&row);
    all.Add(row.second);
  }
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {  // equal times by name
    return std::tie(b->second.total_ns, a->first) < std::tie(a->second.total_ns, b->first);
  });
  std::string table =
      title + (on_gpu
                   ? "\n      calls       bytes      GPU ms    mean us longest us  collective\n"
                   : "\n      calls       bytes    total ms   waited ms    moved ms longest us inline  collective\n");
  for (const auto* row : order) table += Line(on_gpu, row->second, row->first.second, row->first.first);
  return table + Line(on_gpu, all, "all", "");
}

}  // namespace xla_shmem::observe
