#include "xla_patch/assigner/quantities.h"

#include <cmath>
#include <cstdio>

namespace xla_shmem {

std::string FormatBytes(int64_t bytes) {
  if (bytes < 1024) {
    return std::to_string(bytes) + " B";
  }
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  while (value >= 1024 && unit < 5) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %s", value, kUnits[unit]);
  return text;
}

std::string FormatTime(double us) {
  if (std::isinf(us)) {
    return "not run";
  }
  const bool in_ms = us >= 9999.5;
  const double value = in_ms ? us / 1000 : us;
  char text[32];
  std::snprintf(text, sizeof(text), value < 99.95 ? "%.1f %s" : "%.0f %s", value, in_ms ? "ms" : "µs");
  return text;
}

}  // namespace xla_shmem
