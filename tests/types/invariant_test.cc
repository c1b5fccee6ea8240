#include "xla_patch/types/invariant.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>

#include "tests/types/broken_invariant.h"

namespace xla_shmem {
namespace {

using testing::BrokenInvariant;

TEST_CASE("A broken invariant ends the process with its place, its text and both values") {
  const std::string text = BrokenInvariant([] {
    const size_t used = 5, total = 4;
    XLA_SHMEM_INVARIANT(used, <=, total);
  });
  CHECK(text.find("invariant_test.cc:") != std::string::npos);
  CHECK(text.find("broken invariant: used <= total, with 5 and 4; please report this\n") != std::string::npos);
}

TEST_CASE("Pointers are invariants too") {
  CHECK(BrokenInvariant([] {
          const char* const block = "";
          XLA_SHMEM_INVARIANT(block, ==, nullptr);
        }).find("block == nullptr, with ") != std::string::npos);
}

TEST_CASE("Each side of an invariant that holds is computed once") {
  int computed = 0;
  XLA_SHMEM_INVARIANT(++computed, ==, 1);
  CHECK(computed == 1);
}

}  // namespace
}  // namespace xla_shmem
