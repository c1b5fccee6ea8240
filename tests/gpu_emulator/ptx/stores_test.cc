// Stores to the memory of another GPU: whole up to 8 bytes, late, and in no order but that of releases.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "ptx/run_text.h"

namespace ptx::testing {
namespace {

struct alignas(16) Memory {
  uint64_t words[2] = {};
};
Memory remote;

// Block 0 runs `stores` on the memory of another GPU, which is in %p0, with two warps. Block 1 looks until `seen` (a
// predicate, %q) is set, with the words in %x and %y. Returns what it has seen.
Memory Look(const std::string& stores, const std::string& seen) {
  remote = {};
  uint64_t done = 0;
  Memory found;
  const std::string body = R"(
.reg .pred %q, %r, %s;
.reg .b64 %x, %y, %d;
.reg .b32 %tid;
mov.u32 %tid, %tid.x;
setp.eq.u32 %r, %t1, 1;
setp.eq.u32 %s, %tid, 0;
@%r bra LOOKS;
)" + stores + R"(
WAITS:
ld.relaxed.sys.global.u64 %d, [%p1];
setp.ne.u64 %q, %d, 0;
nanosleep.u32 100;
@!%q bra WAITS;
bra END;
LOOKS:
ld.relaxed.sys.global.u64 %y, [%p0+8];
ld.relaxed.sys.global.u64 %x, [%p0];
)" + seen + R"(
nanosleep.u32 100;
@!%q bra LOOKS;
st.global.u64 [%p2], %x;
st.global.u64 [%p2+8], %y;
st.relaxed.sys.global.u64 [%p1], 1;
END:
)";
  REQUIRE(LaunchText(KernelText(3, body), 64, {&remote, &done, &found}, 2) == "");
  return found;
}

// How often the condition holds in 100 launches.
template <typename Condition>
int Count(const std::string& stores, const std::string& seen, Condition condition) {
  SetAccessCheck([](uint64_t address, size_t bytes, bool, AccessibleRange* range) {
    const auto begin = reinterpret_cast<uint64_t>(&remote);
    const bool is_remote = begin <= address && address + bytes <= begin + sizeof(remote);
    *range =
        is_remote ? AccessibleRange{begin, begin + sizeof(remote), true} : AccessibleRange{address, address + bytes};
    return true;
  });
  int count = 0;
  for (int launch = 0; launch < 100; ++launch) count += condition(Look(stores, seen)) ? 1 : 0;
  SetAccessCheck(nullptr);
  return count;
}

constexpr char kAny[] = "or.b64 %d, %x, %y;\nsetp.ne.u64 %q, %d, 0;";
// Reads the first word once more behind the second.
constexpr char kSecond[] = "setp.ne.u64 %q, %y, 0;\nld.relaxed.sys.global.u64 %x, [%p0];";

bool FirstIsMissing(const Memory& found) { return found.words[0] == 0; }

}  // namespace

TEST_CASE("Words of a vector arrive apart, in any order") {
  const char* const pair = "@%s st.relaxed.sys.global.v2.u64 [%p0], {1, 1};";
  CHECK(Count(pair, kAny, [](const Memory& found) { return found.words[0] == 0; }) > 0);
  CHECK(Count(pair, kAny, [](const Memory& found) { return found.words[1] == 0; }) > 0);
}

TEST_CASE("8 bytes arrive whole, in one word; 4 bytes of a vector do not") {
  const auto is_torn = [](const Memory& found) { return found.words[0] != 0xffffffffffffffff && found.words[0] != 0; };
  const char* const first = "setp.ne.u64 %q, %x, 0;";
  CHECK(Count("@%s st.global.u64 [%p0], -1;", first, is_torn) == 0);
  CHECK(Count("@%s st.relaxed.sys.global.u64 [%p0], -1;", first, is_torn) == 0);
  CHECK(Count("@%s st.relaxed.sys.global.v2.u32 [%p0], {-1, -1};", first, is_torn) > 0);
  CHECK(Count("@%s st.global.u32 [%p0], -1;\n@%s st.global.u32 [%p0+4], -1;", first, is_torn) > 0);
}

TEST_CASE("A store arrives before a release at system scope, and before no other store") {
  const std::string data = "@%s st.global.u64 [%p0], 1;\n";
  CHECK(Count(data + "@%s st.release.sys.global.u64 [%p0+8], 1;", kSecond, FirstIsMissing) == 0);
  CHECK(Count(data + "fence.acq_rel.sys;\n@%s st.relaxed.sys.global.u64 [%p0+8], 1;", kSecond, FirstIsMissing) == 0);
  CHECK(Count(data + "membar.sys;\n@%s st.global.u64 [%p0+8], 1;", kSecond, FirstIsMissing) == 0);
  for (const char* const other : {"st.relaxed.sys.global.u64", "st.release.gpu.global.u64", "st.global.u64"}) {
    CAPTURE(other);
    CHECK(Count(data + "@%s " + other + " [%p0+8], 1;", kSecond, FirstIsMissing) > 0);
  }
  CHECK(Count(data + "membar.gl;\n@%s st.global.u64 [%p0+8], 1;", kSecond, FirstIsMissing) > 0);
}

TEST_CASE("A release of a thread comes behind the stores of others only with a barrier between") {
  const std::string data = "setp.eq.u32 %q, %tid, 40;\n@%q st.global.u64 [%p0], 1;\n";
  const std::string released = "@%s st.release.sys.global.u64 [%p0+8], 1;";
  CHECK(Count(data + "bar.sync 0;\n" + released, kSecond, FirstIsMissing) == 0);
  CHECK(Count(data + released, kSecond, FirstIsMissing) > 0);
}

TEST_CASE("Stores to one word keep their order, and a thread sees its own") {
  const char* const twice =
      "@%s st.global.u64 [%p0], 1;\n@%s st.global.u64 [%p0], 2;\nst.release.sys.global.u64 [%p0+8], 1;";
  CHECK(Count(twice, kSecond, [](const Memory& found) { return found.words[0] != 2; }) == 0);
  const char* const own =
      "@%s st.global.u64 [%p0], 5;\n@%s ld.global.u64 %x, [%p0];\n@%s st.release.sys.global.u64 [%p0+8], %x;";
  CHECK(Count(own, kSecond, [](const Memory& found) { return found.words[1] != 5; }) == 0);
}

}  // namespace ptx::testing
