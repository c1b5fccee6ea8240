#include "xla_patch/runtime/observe/totals.h"

#include "doctest/doctest.h"

namespace xla_shmem::observe {
namespace {

TEST_CASE("nothing is printed if no collective has run") { CHECK(Statistics().Table("title").empty()); }

TEST_CASE("the collective that took longest comes first, and a sum last") {
  Statistics statistics;
  statistics.Add("all-reduce", "jit_f/a", {1536, 2'000'000, 500'000, true});
  statistics.Add("all-reduce", "jit_f/a", {1536, 1'000'000, 500'000, false});
  statistics.Add("collective-permute", "jit_f/p", {1 << 20, 9'000'000, 1'000'000, true});
  CHECK(statistics.Table("title") ==
        "title\n"
        "      calls       bytes    total ms   waited ms    moved ms longest us inline  collective\n"
        "          1     1.0 MiB       9.000       8.000       1.000     9000.0  100.0%  collective-permute  jit_f/p\n"
        "          2     3.0 KiB       3.000       2.000       1.000     2000.0   50.0%  all-reduce  jit_f/a\n"
        "          3     1.0 MiB      12.000      10.000       2.000     9000.0   66.7%  all  \n");
}

TEST_CASE("the time of moving data never exceeds the total") {
  Statistics statistics;
  statistics.Add("all-reduce", "a", {1, 1'000'000, 3'000'000, true});
  CHECK(statistics.Table("t").find("      1.000       0.000       3.000") != std::string::npos);
}

}  // namespace
}  // namespace xla_shmem::observe
