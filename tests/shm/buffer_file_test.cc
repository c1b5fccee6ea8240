#include "xla_patch/shm/buffer_file.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "xla_patch/shm/shared_buffers.h"

namespace xla_shmem::shm {
namespace {

constexpr size_t kPage = BufferFile::kPageBytes;

// What the file takes.
size_t Taken(const BufferFile& file) {
  struct stat status;
  REQUIRE(fstat(file.descriptor(), &status) == 0);
  return static_cast<size_t>(status.st_blocks) * 512;
}

SharedBuffersRecord RecordOf(const BufferFile& file) {
  struct stat status;
  REQUIRE(fstat(file.descriptor(), &status) == 0);
  return {status.st_dev, status.st_ino, reinterpret_cast<uint64_t>(file.base()), file.bytes(), file.descriptor()};
}

TEST_CASE("Buffers are whole pages, disjoint, and found again once freed") {
  const auto file = BufferFile::Create(64 * kPage);
  REQUIRE(file != nullptr);
  auto* const first = static_cast<char*>(file->Allocate(kPage + 1));
  auto* const second = static_cast<char*>(file->Allocate(3 * kPage));
  CHECK(first == file->base());
  CHECK(second == first + 2 * kPage);
  CHECK(file->BytesOf(first) == 2 * kPage);
  CHECK(file->used() == 5 * kPage);
  file->Free(first);
  CHECK(file->Allocate(3 * kPage) == second + 3 * kPage);  // does not fit there
  CHECK(file->Allocate(kPage) == first);
  CHECK(file->Allocate(59 * kPage) == nullptr);
  CHECK(file->Allocate(0) == nullptr);
  CHECK_FALSE(file->Has(file->base() + file->bytes()));
  CHECK_FALSE(file->Has(&file));
}

TEST_CASE("Random buffers keep their bytes, and all room comes back") {
  const auto file = BufferFile::Create(512 * kPage);
  REQUIRE(file != nullptr);
  std::mt19937 random(5);
  std::map<char*, std::pair<size_t, char>> live;
  for (int step = 0; step < 20000; ++step) {
    if (random() % 5 < 3) {
      const size_t bytes = 1 + random() % (12 * kPage);
      auto* const buffer = static_cast<char*>(file->Allocate(bytes));
      if (buffer == nullptr) continue;
      const char fill = static_cast<char>(random());
      memset(buffer, fill, bytes);
      live[buffer] = {bytes, fill};
    } else if (!live.empty()) {
      const auto one = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
      const auto [bytes, fill] = one->second;
      CHECK(std::vector<char>(one->first, one->first + bytes) == std::vector<char>(bytes, fill));
      file->Free(one->first);
      live.erase(one);
    }
  }
  for (const auto& [buffer, what] : live) file->Free(buffer);
  CHECK(file->used() == 0);
  CHECK(file->Allocate(512 * kPage) == file->base());
}

TEST_CASE("Freed pages stay, up to what buffers took in this period and the one before") {
  constexpr size_t kMany = 2 * BufferFile::kSpareBytes;
  const auto file = BufferFile::Create(2 * kMany, std::chrono::hours(1));
  REQUIRE(file != nullptr);
  void* const buffer = file->Allocate(kMany);
  memset(buffer, 1, kMany);
  file->Free(buffer);
  CHECK(file->resident() == kMany);
  CHECK(Taken(*file) == kMany);
  CHECK(file->Allocate(kMany) == buffer);
  CHECK(Taken(*file) == kMany);
}

TEST_CASE("Pages that nothing used for two periods go back, but for some, and are zeros when they come again") {
  constexpr size_t kSpare = BufferFile::kSpareBytes;
  const auto file = BufferFile::Create(4 * kSpare, std::chrono::nanoseconds(0));
  REQUIRE(file != nullptr);
  std::vector<char*> pieces;
  for (int i = 0; i < 4; ++i) pieces.push_back(static_cast<char*>(file->Allocate(kSpare)));
  memset(pieces[0], 1, 4 * kSpare);
  CHECK(Taken(*file) == 4 * kSpare);
  file->Free(pieces[3]);  // may stay
  CHECK(Taken(*file) == 4 * kSpare);
  file->Free(pieces[1]);
  CHECK(file->resident() == 3 * kSpare);
  CHECK(Taken(*file) == 3 * kSpare);
  file->Free(pieces[0]);
  CHECK(file->resident() == 2 * kSpare);
  CHECK(Taken(*file) == 2 * kSpare);
  CHECK(pieces[2][0] == 1);
  auto* const again = static_cast<char*>(file->Allocate(2 * kSpare));
  CHECK(again == pieces[0]);
  CHECK(file->resident() == 3 * kSpare);
  CHECK(again[0] == 1);
  CHECK(again[kSpare] == 0);
}

TEST_CASE("What a file takes is what it counts, however buffers come and go") {
  const auto file = BufferFile::Create(8 * BufferFile::kSpareBytes, std::chrono::nanoseconds(0));
  REQUIRE(file != nullptr);
  std::mt19937 random(9);
  std::vector<std::pair<char*, size_t>> live;
  for (int step = 0; step < 400; ++step) {
    const size_t bytes = (1 + random() % 3000) * kPage;
    if (random() % 2 == 0 || live.empty()) {
      auto* const buffer = static_cast<char*>(file->Allocate(bytes));
      if (buffer == nullptr) continue;
      memset(buffer, 1, bytes);
      live.emplace_back(buffer, bytes);
    } else {
      std::swap(live[random() % live.size()], live.back());
      file->Free(live.back().first);
      live.pop_back();
      CHECK(file->resident() <= file->used() + BufferFile::kSpareBytes);
    }
    CHECK(Taken(*file) == file->resident());
  }
}

TEST_CASE("A peer maps the file by its record, and finds what lies in it") {
  const auto file = BufferFile::Create(16 * kPage);
  REQUIRE(file != nullptr);
  auto* const buffer = static_cast<char*>(file->Allocate(2 * kPage));
  memset(buffer, 7, 2 * kPage);
  const auto peer = SharedBuffers::Map(RecordOf(*file), getpid());
  REQUIRE(peer != nullptr);
  const char* const found = peer->Find(buffer, 2 * kPage);
  REQUIRE(found != nullptr);
  CHECK(found != buffer);
  CHECK(std::vector<char>(found, found + 2 * kPage) == std::vector<char>(2 * kPage, 7));
  CHECK(peer->Find(file->base() + 15 * kPage, kPage) != nullptr);
  CHECK(peer->Find(file->base() + 15 * kPage, kPage + 1) == nullptr);
  CHECK(peer->Find(file->base() - 1, 2) == nullptr);
  CHECK(peer->Find(&peer, 1) == nullptr);
}

TEST_CASE("Another file, another process or none is not mapped") {
  const auto file = BufferFile::Create(16 * kPage), other = BufferFile::Create(16 * kPage);
  SharedBuffersRecord record = RecordOf(*file);
  record.file = other->descriptor();
  CHECK(SharedBuffers::Map(record, getpid()) == nullptr);
  CHECK(SharedBuffers::Map(RecordOf(*file), 1 << 30) == nullptr);
  CHECK(SharedBuffers::Map({}, getpid()) == nullptr);
}

TEST_CASE("A forked child sees the buffers, and what it writes stays its own") {
  const auto file = BufferFile::Create(16 * kPage);
  auto* const buffer = static_cast<char*>(file->Allocate(kPage));
  buffer[0] = 1;
  file->BeforeFork();
  const pid_t child = fork();
  if (child == 0) {
    file->AfterForkInChild();
    const bool saw = buffer[0] == 1;
    buffer[0] = 2;
    file->Free(buffer);
    _exit(saw && buffer[0] == 2 && file->Allocate(kPage) == nullptr ? 0 : 1);
  }
  file->AfterForkInParent();
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(buffer[0] == 1);
  CHECK(file->used() == kPage);
}

}  // namespace
}  // namespace xla_shmem::shm
