#include "xla_patch/runtime/observe/totals.h"

#include <thread>
#include <vector>

#include "doctest/doctest.h"

namespace xla_shmem::observe {
namespace {

Finished Execution(uint64_t bytes, uint64_t total_ns, std::optional<uint64_t> moved_ns, bool is_inline) {
  return {0, 0, bytes, 1'000, 1'000 + total_ns, moved_ns, is_inline, std::nullopt};
}

Sums SumsOf(const std::vector<Finished>& executions) {
  Totals totals;
  for (const Finished& execution : executions) {
    totals.Add(execution);
  }
  return totals.Read();
}

TEST_CASE("nothing is printed if no collective has run") { CHECK(TotalsTable("title", false, {}).empty()); }

TEST_CASE("the collective that took longest comes first, and a sum last") {
  const Sums sum = SumsOf({Execution(1536, 2'000'000, 500'000, true), Execution(1536, 1'000'000, 500'000, false)});
  const Sums permute = SumsOf({Execution(1 << 20, 9'000'000, 1'000'000, true)});
  CHECK(TotalsTable("title", false, {{{"jit_f/a", "all-reduce"}, sum}, {{"jit_f/p", "collective-permute"}, permute}}) ==
        "title\n"
        "      calls       bytes    total ms   waited ms    moved ms longest us inline  collective\n"
        "          1     1.0 MiB       9.000       8.000       1.000     9000.0  100.0%  collective-permute  jit_f/p\n"
        "          2     3.0 KiB       3.000       2.000       1.000     2000.0   50.0%  all-reduce  jit_f/a\n"
        "          3     1.0 MiB      12.000      10.000       2.000     9000.0   66.7%  all  \n");
}

TEST_CASE("on GPUs there is a mean and no share of waiting") {
  const Sums sum = SumsOf({Execution(1024, 3'000, std::nullopt, false), Execution(1024, 1'000, std::nullopt, false)});
  CHECK(TotalsTable("title", true, {{{"jit_f/a", "all-reduce"}, sum}}) ==
        "title\n"
        "      calls       bytes      GPU ms    mean us longest us  collective\n"
        "          2     2.0 KiB       0.004        2.0        3.0  all-reduce  jit_f/a\n"
        "          2     2.0 KiB       0.004        2.0        3.0  all  \n");
}

TEST_CASE("the time of moving data never exceeds the total") {
  const Sums sums = SumsOf({Execution(1, 1'000'000, 3'000'000, true)});
  CHECK(TotalsTable("t", false, {{{"a", "all-reduce"}, sums}}).find("      1.000       0.000       3.000") !=
        std::string::npos);
}

TEST_CASE("threads that end executions at once lose none") {
  Totals totals;
  std::vector<std::thread> threads;
  for (uint64_t thread = 1; thread <= 4; ++thread) {
    threads.emplace_back([&totals, thread] {
      for (int i = 0; i < 5'000; ++i) {
        totals.Add(Execution(thread, thread, 1, thread % 2 == 0));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const Sums sums = totals.Read();
  CHECK(sums.calls == 20'000);
  CHECK(sums.inline_calls == 10'000);
  CHECK(sums.bytes == 50'000);
  CHECK(sums.total_ns == 50'000);
  CHECK(sums.moved_ns == 20'000);
  CHECK(sums.longest_ns == 4);
}

}  // namespace
}  // namespace xla_shmem::observe
