#include "xla_patch/shm/huge_pages.h"

#include <doctest/doctest.h>
#include <string.h>
#include <sys/mman.h>

#include <memory>

namespace xla_shmem::shm {
namespace {

constexpr size_t kPages = 4;

struct Unmap {
  void operator()(char* memory) const { munmap(memory, (kPages + 1) * kHugePageBytes); }
};

// Memory of kPages huge pages' size, as the system gives it when asked for `advice`; and where the first page begins.
std::unique_ptr<char, Unmap> Map(int advice, char** first) {
  auto* memory = static_cast<char*>(
      mmap(nullptr, (kPages + 1) * kHugePageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(memory != MAP_FAILED);
  madvise(memory, (kPages + 1) * kHugePageBytes, advice);
  *first = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(memory) + kHugePageBytes - 1) / kHugePageBytes *
                                   kHugePageBytes);
  memset(*first, 1, kPages * kHugePageBytes);
  return std::unique_ptr<char, Unmap>(memory);
}

TEST_CASE("Memory that is to have no huge pages has none, and memory that is not mapped neither") {
  char* first = nullptr;
  const auto memory = Map(MADV_NOHUGEPAGE, &first);
  CHECK(BytesOnHugePages(first, kPages * kHugePageBytes) == 0);
  CHECK(BytesOnHugePages(reinterpret_cast<void*>(4096), kHugePageBytes) == 0);
  HugePages pages(false);
  CHECK_FALSE(pages.Hold(first, kPages * kHugePageBytes));
}

TEST_CASE("Bytes on huge pages are counted wherever a buffer begins and ends") {
  char* first = nullptr;
  const auto memory = Map(MADV_HUGEPAGE, &first);
  const size_t all = kPages * kHugePageBytes;
  const size_t found = BytesOnHugePages(first, all);
  CHECK(found % kHugePageBytes == 0);  // 0 where the system has none to give, or does not say
  if (found == all) {
    CHECK(BytesOnHugePages(first + 100, all - 300) == all - 300);
    CHECK(BytesOnHugePages(first + kHugePageBytes - 1, 2) == 2);
    madvise(first, kHugePageBytes, MADV_DONTNEED);
    first[0] = 1;  // comes back as whatever page the system chooses, the other three stay
    CHECK(BytesOnHugePages(first + kHugePageBytes, all - kHugePageBytes) == all - kHugePageBytes);
  }
}

TEST_CASE("The kernel is asked again after a while") {
  char* first = nullptr;
  auto memory = Map(MADV_HUGEPAGE, &first);
  const size_t all = kPages * kHugePageBytes;
  if (BytesOnHugePages(first, all) == all) {
    HugePages pages(false);
    CHECK(pages.Hold(first, all));
    madvise(first, all, MADV_NOHUGEPAGE);
    madvise(first, all, MADV_DONTNEED);
    memset(first, 1, all);
    for (uint32_t use = 1; use < HugePages::kRenewal; ++use) CHECK(pages.Hold(first, all));
    CHECK_FALSE(pages.Hold(first, all));
  }
}

// Whether this system moves memory to huge pages at all, tried here by its own call.
bool SystemMoves() {
  char* first = nullptr;
  const auto memory = Map(MADV_NORMAL, &first);
  return HugePagesAllowed() && madvise(first, kPages * kHugePageBytes, 25 /* MADV_COLLAPSE */) == 0 &&
         BytesOnHugePages(first, kPages * kHugePageBytes) == kPages * kHugePageBytes;
}

TEST_CASE("A buffer that is sent again moves to huge pages with its bytes, wherever it begins and ends") {
  char* first = nullptr;
  const auto memory = Map(MADV_NORMAL, &first);
  const size_t all = kPages * kHugePageBytes;
  if (BytesOnHugePages(first, all) != 0) return;  // a system that gives them to everybody
  for (size_t i = 0; i < all; ++i) first[i] = static_cast<char>(i * 7 + i / 4096);
  HugePages kept(false), moved(true);
  const char* const buffer = first + 100;
  const size_t bytes = all - 5000;
  for (int use = 0; use < 3; ++use) CHECK_FALSE(kept.Hold(buffer, bytes));
  CHECK(BytesOnHugePages(first, all) == 0);
  CHECK_FALSE(moved.Hold(buffer, bytes));
  CHECK(moved.Hold(buffer, bytes) == SystemMoves());
  CHECK(BytesOnHugePages(first, all) == (SystemMoves() ? all : 0));
  size_t wrong = 0;
  for (size_t i = 0; i < all; ++i) wrong += first[i] != static_cast<char>(i * 7 + i / 4096);
  CHECK(wrong == 0);
}

TEST_CASE("Only one move is tried of a buffer that does not stay") {
  char* first = nullptr;
  const auto memory = Map(MADV_NORMAL, &first);
  const size_t all = kPages * kHugePageBytes;
  HugePages pages(true);
  pages.Hold(first, all);
  if (!pages.Hold(first, all)) return;
  madvise(first, all, MADV_DONTNEED);
  memset(first, 1, all);
  if (BytesOnHugePages(first, all) != 0) return;  // a system that gives them to everybody
  for (uint32_t use = 2; use < 3 * HugePages::kRenewal; ++use) pages.Hold(first, all);
  CHECK(BytesOnHugePages(first, all) == 0);
  CHECK_FALSE(pages.Hold(first, all));
}

}  // namespace
}  // namespace xla_shmem::shm
