#include "xla_patch/shm/copy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace xla_shmem::shm {
namespace {

TEST_CASE("Exactly the given bytes are copied, for every relative alignment") {
  std::vector<uint8_t> from(3 * 4096 + 64), to(from.size() + 4200);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint8_t>(i * 7 + i / 251 + 1);
  const size_t base =
      4096 - reinterpret_cast<uintptr_t>(to.data()) % 4096 + reinterpret_cast<uintptr_t>(from.data()) % 4096;
  for (size_t ahead : {0, 1, 16, 31, 32, 64, 4080, 4095}) {
    const size_t at = (base + ahead) % 4096;
    CHECK(Is4kAliased(to.data() + at, from.data()) == (ahead >= 1 && ahead <= 31));
    for (size_t bytes : {size_t{0}, size_t{1}, size_t{1023}, size_t{1024}, size_t{1025}, size_t{4096}, from.size()}) {
      for (const auto copy : {Copy, CopyStreaming}) {
        std::fill(to.begin(), to.end(), 0xEE);
        copy(to.data() + at, from.data(), bytes);
        CHECK(std::equal(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(bytes),
                         to.begin() + static_cast<std::ptrdiff_t>(at)));
        CHECK(std::count(to.begin(), to.begin() + static_cast<std::ptrdiff_t>(at), 0xEE) ==
              static_cast<std::ptrdiff_t>(at));
        CHECK(std::all_of(to.begin() + static_cast<std::ptrdiff_t>(at + bytes), to.end(),
                          [](uint8_t byte) { return byte == 0xEE; }));
      }
    }
  }
}

}  // namespace
}  // namespace xla_shmem::shm
