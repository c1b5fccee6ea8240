#include "xla_patch/shm/cross_memory_reader.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "tests/shm/process_group.h"
#include "tests/shm/test_heap.h"
#include "xla_patch/shm/buffer_file.h"

namespace xla_shmem::shm {
namespace {

using Outcome = CrossMemoryReader::Outcome;

std::string Expect(bool condition, const char* what) { return condition ? "" : what; }

TEST_CASE("A process reads another's private memory in pieces of any alignment") {
  const JobKey key = testing::RandomJobKey();
  testing::ProcessGroup group(2);
  group.Start([&](int rank) -> std::string {
    const auto heap = testing::HeapOfProcesses(group, key, rank, 2, 1 << 20);
    const CrossMemoryReader reader(heap.get(), SingleCopy::kAlways);
    std::vector<char> memory(300000);
    std::iota(memory.begin(), memory.end(), static_cast<char>(rank));
    group.word(rank) = reinterpret_cast<uint64_t>(memory.data());
    group.Meet();
    std::string verdict = Expect(reader.Reads(1 - rank), "not permitted");
    if (reader.HaveSharedBuffers({0, 1})) verdict = "nobody has a file";
    if (reader.Find(1 - rank, memory.data(), 1) != nullptr) verdict = "found without a file";
    if (verdict.empty()) {
      const char* theirs = reinterpret_cast<const char*>(group.word(1 - rank).load());
      std::vector<char> copy(memory.size(), 0);
      std::vector<RemotePiece> pieces;
      for (size_t at = 0; at < copy.size(); at += 1237) {
        pieces.push_back({theirs + at, copy.data() + at, std::min<size_t>(1237, copy.size() - at)});
      }
      std::vector<char> expected(memory.size());
      std::iota(expected.begin(), expected.end(), static_cast<char>(1 - rank));
      verdict = Expect(reader.Read(1 - rank, pieces.data(), pieces.size()) == Outcome::kDone && copy == expected,
                       "other bytes than the process has");
    }
    group.Meet();  // keeps the memory until both have read
    return verdict;
  });
  CHECK(group.Join() == std::vector<std::string>{"", ""});
}

TEST_CASE("A read of unmapped memory is refused, and a process that has failed or exited is gone") {
  const JobKey key = testing::RandomJobKey();
  testing::ProcessGroup group(2);
  group.Start([&](int rank) -> std::string {
    const auto heap = testing::HeapOfProcesses(group, key, rank, 2, 1 << 20);
    const CrossMemoryReader reader(heap.get(), SingleCopy::kAlways);
    static uint64_t word = 7;
    group.word(rank) = reinterpret_cast<uint64_t>(&word);
    group.Meet();
    if (rank == 1) {
      while (group.word(2) < 1) usleep(100);
      heap->Fail("the cat pulled the plug");
      group.word(3) = 1;
      while (group.word(2) < 2) usleep(100);
      return "";
    }
    uint64_t copy[2] = {0, 0};
    const RemotePiece nowhere{reinterpret_cast<const void*>(16), copy, 8};
    const RemotePiece there{reinterpret_cast<const void*>(group.word(1).load()), copy, 8};
    const RemotePiece both[] = {there, nowhere};
    if (reader.Read(1, &nowhere, 1) != Outcome::kRefused) return "an unmapped page was not refused";
    if (reader.Read(1, both, 2) != Outcome::kRefused) return "a half-mapped read was not refused";
    if (reader.Read(1, &there, 1) != Outcome::kDone || copy[0] != 7) return "a good read failed";
    group.word(2) = 1;
    while (group.word(3) < 1) usleep(100);
    if (reader.Read(1, &there, 1) != Outcome::kGone) return "a process that gave up was believed";
    group.word(2) = 2;
    while (heap->Alive(1)) usleep(1000);
    return Expect(reader.Read(1, &there, 1) != Outcome::kDone, "a process that has exited was read");
  });
  CHECK(group.Join() == std::vector<std::string>{"", ""});
}

TEST_CASE("Shared buffers are read by loads, all else by the kernel, and a process that has failed is gone") {
  const JobKey key = testing::RandomJobKey();
  testing::ProcessGroup group(2);
  group.Start([&](int rank) -> std::string {
    const auto heap = testing::HeapOfProcesses(group, key, rank, 2, 1 << 20);
    const auto file = BufferFile::Create(1 << 20);
    struct stat status;
    if (file == nullptr || fstat(file->descriptor(), &status) != 0) return "no file";
    // Rank 0 says that its file begins at an address of which the kernel knows nothing: what comes from there has come
    // by loads.
    const uint64_t begin = rank == 0 ? kPageBytes : reinterpret_cast<uint64_t>(file->base());
    auto& header = const_cast<SegmentHeader&>(heap->HeaderOf(rank));
    header.shared_buffers = {status.st_dev, status.st_ino, begin, file->bytes(), file->descriptor()};
    auto* const shared = static_cast<uint64_t*>(file->Allocate(100000));
    static uint64_t own;
    *shared = 70 + static_cast<uint64_t>(rank);
    own = 80 + static_cast<uint64_t>(rank);
    group.word(rank) = begin + (reinterpret_cast<uint64_t>(shared) - reinterpret_cast<uint64_t>(file->base()));
    group.word(2 + rank) = reinterpret_cast<uint64_t>(&own);
    group.Meet();
    const CrossMemoryReader reader(heap.get(), SingleCopy::kAlways);
    const auto theirs = static_cast<uint64_t>(1 - rank);
    uint64_t copy[2] = {0, 0};
    const RemotePiece in_file{reinterpret_cast<const void*>(group.word(1 - rank).load()), &copy[0], 8};
    const RemotePiece outside{reinterpret_cast<const void*>(group.word(3 - rank).load()), &copy[1], 8};
    const RemotePiece both[] = {in_file, outside};
    std::string verdict = Expect(reader.Reads(1 - rank), "a process with shared buffers is not read");
    if (!reader.HaveSharedBuffers({0, 1})) verdict = "both have files";
    const auto* const here = reinterpret_cast<const uint64_t*>(reader.Find(1 - rank, in_file.remote, 8));
    if (here == nullptr || *here != 70 + theirs) verdict = "not found in the file";
    if (reader.Find(1 - rank, outside.remote, 8) != nullptr) verdict = "found what is not in the file";
    if (!reader.IsIntact(1 - rank)) verdict = "a process that works was not believed";
    for (const bool past_cache : {false, true}) {
      copy[0] = copy[1] = 0;
      const Outcome by_loads = reader.Read(1 - rank, &in_file, 1, past_cache);
      if (by_loads != Outcome::kDone || copy[0] != 70 + theirs) verdict = "other bytes than the file has";
      const Outcome by_kernel = reader.Read(1 - rank, both, 2, past_cache);
      if (by_kernel != (rank == 0 ? Outcome::kDone : Outcome::kRefused)) verdict = "not read by the kernel";
      if (rank == 0 && copy[1] != 80 + theirs) verdict = "other bytes than the process has";
    }
    group.Meet();
    if (rank == 1) heap->Fail("the cat pulled the plug");
    group.Meet();
    if (rank == 0 && reader.Read(1, &in_file, 1) != Outcome::kGone) verdict = "a process that gave up was believed";
    if (rank == 0 && reader.IsIntact(1)) verdict = "the buffers of a process that gave up were believed";
    group.Meet();
    return verdict;
  });
  CHECK(group.Join() == std::vector<std::string>{"", ""});
}

TEST_CASE("Off disables reads, even within a process") {
  const auto heap = testing::HeapOfOneProcess(2, 1 << 20);
  CHECK_FALSE(CrossMemoryReader(heap.get(), SingleCopy::kOff).Reads(1));
  CHECK(CrossMemoryReader(heap.get(), SingleCopy::kAuto).Reads(1));
}

TEST_CASE("A segment whose probe does not answer with the job's key is not read") {
  const JobKey key = testing::RandomJobKey();
  testing::ProcessGroup group(2);
  group.Start([&](int rank) -> std::string {
    const auto heap = testing::HeapOfProcesses(group, key, rank, 2, 1 << 20);
    static uint64_t other_key[2] = {1, 2};
    auto& header = const_cast<SegmentHeader&>(heap->HeaderOf(rank));
    header.probe_address = reinterpret_cast<uint64_t>(other_key);
    group.Meet();
    const bool reads = CrossMemoryReader(heap.get(), SingleCopy::kAlways).Reads(1 - rank);
    group.Meet();
    return Expect(!reads, "read a process of another job");
  });
  CHECK(group.Join() == std::vector<std::string>{"", ""});
}

}  // namespace
}  // namespace xla_shmem::shm
