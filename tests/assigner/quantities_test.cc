#include "xla_patch/assigner/quantities.h"

#include <doctest/doctest.h>

#include <limits>

namespace xla_shmem {
namespace {

TEST_CASE("sizes read well from bytes to exbibytes") {
  CHECK(FormatBytes(0) == "0 B");
  CHECK(FormatBytes(1023) == "1023 B");
  CHECK(FormatBytes(1024) == "1.0 KiB");
  CHECK(FormatBytes(1536) == "1.5 KiB");
  CHECK(FormatBytes(INT64_MAX) == "8.0 EiB");
}

TEST_CASE("times have three digits or one decimal") {
  CHECK(FormatTime(2.08) == "2.1 µs");
  CHECK(FormatTime(99.94) == "99.9 µs");
  CHECK(FormatTime(310.4) == "310 µs");
  CHECK(FormatTime(12345) == "12.3 ms");
  CHECK(FormatTime(std::numeric_limits<double>::infinity()) == "not run");
}

}  // namespace
}  // namespace xla_shmem
