#include "xla_patch/runtime/observe/totals.h"

#include <optional>
#include <string>
#include <vector>

#include "doctest/doctest.h"

namespace xla_shmem::observe {
namespace {

Finished Execution(uint64_t bytes, uint64_t total_ns, std::optional<uint64_t> moved_ns, bool is_inline) {
  return {0, 0, bytes, 1'000, 1'000 + total_ns, moved_ns, is_inline, std::nullopt};
}

Totals TotalsOf(const std::vector<Finished>& executions) {
  Totals totals;
  for (const Finished& execution : executions) {
    totals.Add(Totals::Of(execution));
  }
  return totals;
}

TEST_CASE("nothing is printed if no collective has run") { CHECK(TotalsTable("title", false, {}).empty()); }

TEST_CASE("the collective that took longest comes first, and a sum last") {
  const Totals sum = TotalsOf({Execution(1536, 2'000'000, 500'000, true), Execution(1536, 1'000'000, 500'000, false)});
  const Totals permute = TotalsOf({Execution(1 << 20, 9'000'000, 1'000'000, true)});
  CHECK(TotalsTable("title", false, {{{"jit_f/a", "all-reduce"}, sum}, {{"jit_f/p", "collective-permute"}, permute}}) ==
        "title\n"
        "      calls       bytes    total ms   waited ms    moved ms longest us inline  collective\n"
        "          1     1.0 MiB       9.000       8.000       1.000     9000.0  100.0%  collective-permute  jit_f/p\n"
        "          2     3.0 KiB       3.000       2.000       1.000     2000.0   50.0%  all-reduce  jit_f/a\n"
        "          3     1.0 MiB      12.000      10.000       2.000     9000.0   66.7%  all  \n");
}

TEST_CASE("of the default backend only the time is known, and the sum has the shares of the others") {
  const Totals ours = TotalsOf({Execution(1024, 3'000'000, 1'000'000, true)});
  const Totals gloo = TotalsOf({Execution(1024, 5'000'000, std::nullopt, false)});
  const std::string table =
      TotalsTable("t", false, {{{"f/a", "all-reduce"}, ours}, {{"f/b", "all-gather (default backend)"}, gloo}});
  CHECK(table.find("          1     1.0 KiB       5.000           -           -     5000.0       -  all-gather "
                   "(default backend)  f/b\n") != std::string::npos);
  CHECK(table.find("          2     2.0 KiB       8.000       2.000       1.000     5000.0  100.0%  all  \n") !=
        std::string::npos);
}

TEST_CASE("on GPUs there is a mean and no share of waiting") {
  const Totals sum =
      TotalsOf({Execution(1024, 3'000, std::nullopt, false), Execution(1024, 1'000, std::nullopt, false)});
  CHECK(TotalsTable("title", true, {{{"jit_f/a", "all-reduce"}, sum}}) ==
        "title\n"
        "      calls       bytes      GPU ms    mean us longest us  collective\n"
        "          2     2.0 KiB       0.004        2.0        3.0  all-reduce  jit_f/a\n"
        "          2     2.0 KiB       0.004        2.0        3.0  all  \n");
}

TEST_CASE("the time of moving data never exceeds the total") {
  const Totals sums = TotalsOf({Execution(1, 1'000'000, 3'000'000, true)});
  CHECK(TotalsTable("t", false, {{{"a", "all-reduce"}, sums}}).find("      1.000       0.000       3.000") !=
        std::string::npos);
}

}  // namespace
}  // namespace xla_shmem::observe
