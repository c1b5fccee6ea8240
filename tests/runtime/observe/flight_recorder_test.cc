#include "xla_patch/runtime/observe/flight_recorder.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "doctest/doctest.h"
#include "tests/runtime/observe/temporary_directory.h"
#include "tests/types/value_of.h"

namespace xla_shmem::observe {
namespace {

std::unique_ptr<FlightRecorder> MakeRecorder(const TemporaryDirectory& directory, int process = 0,
                                             const std::vector<int>& processes = {0},
                                             const std::vector<int>& pes = {0}) {
  return testing::ValueOf(FlightRecorder::Create(directory.path(), process, processes, pes));
}

// The ring as a reader finds it: the file, not the mapping.
struct Ring {
  explicit Ring(const TemporaryDirectory& directory, int process = 0)
      : bytes(directory.Read(std::to_string(process) + ".ring")) {}
  const RingHeader& header() const { return *reinterpret_cast<const RingHeader*>(bytes.data()); }
  const PeHeader& pe(size_t index) const {
    return *reinterpret_cast<const PeHeader*>(bytes.data() + sizeof(RingHeader) + index * FlightRecorder::kPeBytes);
  }
  const Entry& entry(size_t index, uint64_t sequence) const {
    return reinterpret_cast<const Entry*>(&pe(index) + 1)[sequence % FlightRecorder::kEntries];
  }
  std::string bytes;
};

TEST_CASE("a reader of the file finds its process and the collectives of each PE") {
  const TemporaryDirectory directory;
  const auto recorder = MakeRecorder(directory, 1, {0, 1}, {2, 3});
  uint64_t sequence = 0;
  Entry* entry = recorder->Begin(3, 7, (uint64_t{5} << 32) + 1, 4096, 100, &sequence);
  FlightRecorder::Set(entry, sequence, State::kDone, 250);
  const Ring ring(directory, 1);
  CHECK(std::string(ring.header().magic, 8) == "XSHMFR5\n");
  CHECK(ring.header().pid == static_cast<uint32_t>(getpid()));
  CHECK(ring.header().process == 1);
  CHECK(ring.header().processes == 2);
  CHECK(ring.header().n_pes == 2);
  CHECK(ring.pe(0).pe == 2);
  CHECK(ring.pe(0).next == 0);
  CHECK(ring.pe(1).pe == 3);
  CHECK(ring.pe(1).next == 1);
  const Entry& read = ring.entry(1, 1);
  CHECK(read.sequence == 1);
  CHECK(read.site == 7);
  CHECK(read.execution == (uint64_t{5} << 32) + 1);
  CHECK(read.bytes == 4096);
  CHECK(read.start_ns == 100);
  CHECK(read.end_ns == 250);
  CHECK(read.state == static_cast<uint32_t>(State::kDone));
}

TEST_CASE("an entry that a later collective has overwritten is not changed") {
  const TemporaryDirectory directory;
  const auto recorder = MakeRecorder(directory);
  uint64_t first = 0;
  Entry* entry = recorder->Begin(0, 0, 0, 0, 0, &first);
  uint64_t sequence = 0;
  for (uint32_t i = 0; i < FlightRecorder::kEntries; ++i) recorder->Begin(0, 1, i, 0, 0, &sequence);
  FlightRecorder::Set(entry, first, State::kFailed, 9);
  const Ring ring(directory);
  CHECK(ring.entry(0, sequence).sequence == sequence);
  CHECK(ring.entry(0, sequence).state == static_cast<uint32_t>(State::kStarted));
}

TEST_CASE("threads of a PE get separate entries") {
  const TemporaryDirectory directory;
  const auto recorder = MakeRecorder(directory);
  std::vector<std::thread> threads;
  for (uint32_t site = 0; site < 4; ++site) {
    threads.emplace_back([&recorder, site] {
      for (uint64_t i = 0; i < 200; ++i) {
        uint64_t sequence = 0;
        Entry* entry = recorder->Begin(0, site, i, site, i, &sequence);
        FlightRecorder::Set(entry, sequence, State::kDone, i + 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Ring ring(directory);
  CHECK(ring.pe(0).next == 800);
  std::vector<int> of_site(4);
  for (uint64_t sequence = 1; sequence <= 800; ++sequence) {
    const Entry& entry = ring.entry(0, sequence);
    REQUIRE(entry.sequence == sequence);
    CHECK(entry.bytes == entry.site);
    CHECK(entry.end_ns == entry.start_ns + 1);
    ++of_site[entry.site];
  }
  CHECK(of_site == std::vector<int>(4, 200));
}

TEST_CASE("a PE of another process has no entries") {
  const TemporaryDirectory directory;
  uint64_t sequence = 0;
  CHECK(MakeRecorder(directory)->Begin(1, 0, 0, 0, 0, &sequence) == nullptr);
}

TEST_CASE("behind the rings is a record of each loaded collective") {
  const TemporaryDirectory directory;
  const auto recorder = MakeRecorder(directory, 0, {0}, {0, 1});
  CHECK(recorder->AddSite({42,
                           "all-reduce",
                           "jit_f/\"a\"\n",
                           false,
                           {{0, 1}, {2}},
                           "a.py:1",
                           false,
                           {1, 2, 3, 4, "f32[8]", {5, 6}, {7, 8}}}) == 0);
  CHECK(recorder->AddSite({~uint64_t{0}, "collective-permute", "jit_f/p", true, {{0, 1}}, "f.py:7", true}) == 1);
  const Ring ring(directory);
  const char* const first = reinterpret_cast<const char*>(&ring.pe(2));
  const auto* record = reinterpret_cast<const SiteRecord*>(first);
  CHECK(record->operation == 42);
  CHECK(record->number == 0);
  CHECK(record->traits == 0);
  CHECK(record->n_groups == 2);
  CHECK(std::vector<uint64_t>{record->program, record->form, record->place, record->part} ==
        std::vector<uint64_t>{1, 2, 3, 4});
  const size_t texts = record->op_bytes + record->name_bytes + record->source_bytes + record->contents_bytes;
  CHECK(std::string(first + sizeof(*record), texts) == "all-reducejit_f/\"a\"\na.py:1f32[8]");
  uint32_t numbers[5];
  std::memcpy(numbers, first + sizeof(*record) + texts, sizeof(numbers));
  CHECK(std::vector<uint32_t>(numbers, numbers + 5) == std::vector<uint32_t>{2, 1, 0, 1, 2});
  uint64_t sources_and_branches[4];
  std::memcpy(sources_and_branches, first + sizeof(*record) + texts + sizeof(numbers), sizeof(sources_and_branches));
  CHECK(std::vector<uint64_t>(sources_and_branches, sources_and_branches + 4) == std::vector<uint64_t>{5, 6, 7, 8});
  CHECK(record->n_operand_sources == 2);
  CHECK(record->n_branches == 2);
  CHECK(record->bytes % 8 == 0);
  const auto* second = reinterpret_cast<const SiteRecord*>(first + record->bytes);
  CHECK(second->operation == ~uint64_t{0});
  CHECK(second->number == 1);
  CHECK(second->traits == (site_trait::kPairs | site_trait::kOnDefaultBackend));
  CHECK(ring.header().site_bytes == record->bytes + second->bytes);
  CHECK(ring.bytes.size() == sizeof(RingHeader) + 2 * FlightRecorder::kPeBytes + ring.header().site_bytes);
}

TEST_CASE("it is recorded that several threads load programs") {
  const TemporaryDirectory directory;
  const auto recorder = MakeRecorder(directory);
  recorder->MarkLoad();
  recorder->MarkLoad();
  CHECK(Ring(directory).header().several_threads_load == 0);
  std::thread([&] { recorder->MarkLoad(); }).join();
  CHECK(Ring(directory).header().several_threads_load == 1);
}

TEST_CASE("a record that a full disk has cut short is overwritten by the next") {
  const TemporaryDirectory directory;
  const auto recorder = MakeRecorder(directory);
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit full = {sizeof(RingHeader) + FlightRecorder::kPeBytes + 8, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &full) == 0);
  recorder->AddSite({42, "all-reduce", "jit_f/a", false, {{0}}});
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, handler);
  CHECK(Ring(directory).header().site_bytes == 0);
  recorder->AddSite({43, "all-reduce", "jit_f/b", false, {{0}}});
  const Ring ring(directory);
  const auto* record = reinterpret_cast<const SiteRecord*>(&ring.pe(1));
  CHECK(record->operation == 43);
  CHECK(record->number == 1);
}

TEST_CASE("the first failure is kept, truncated if necessary") {
  const TemporaryDirectory directory;
  const auto recorder = MakeRecorder(directory);
  recorder->Fail(std::string(5000, 'x'));
  recorder->Fail("later");
  const Ring ring(directory);
  CHECK(ring.header().outcome == static_cast<uint32_t>(Outcome::kFailed));
  CHECK(std::strlen(ring.header().failure) == sizeof(ring.header().failure) - 1);
}

TEST_CASE("the last of the processes that end well removes the records") {
  const TemporaryDirectory parent;
  const std::string job = parent.File("job");
  std::filesystem::create_directory(job);
  const auto first = testing::ValueOf(FlightRecorder::Create(job, 2, {2, 5}, {0}));
  first->Close(0);
  CHECK(std::filesystem::exists(job + "/2.ring"));  // process 5 may not have started
  const auto second = testing::ValueOf(FlightRecorder::Create(job, 5, {2, 5}, {1}));
  second->Close(0);
  CHECK_FALSE(std::filesystem::exists(job));
}

TEST_CASE("records of a failed job stay") {
  const TemporaryDirectory directory;
  const auto recorder = MakeRecorder(directory);
  recorder->Fail("a peer has exited");
  recorder->Close(0);
  CHECK(Ring(directory).header().outcome == static_cast<uint32_t>(Outcome::kFailed));
}

TEST_CASE("files are private to the user, and symlinks in their place are not followed") {
  const TemporaryDirectory directory;
  {
    const mode_t before = umask(0);  // so that the modes are those that the recorder asks for
    const auto recorder = MakeRecorder(directory);
    umask(before);
    struct stat status;
    REQUIRE(stat(directory.File("0.ring").c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
  }
  CHECK(FlightRecorder::Create(directory.path(), 0, {0}, {0}).message() ==
        "cannot create " + directory.File("0.ring") + ": File exists");
  std::filesystem::create_symlink(directory.File("elsewhere"), directory.File("1.ring"));
  CHECK_FALSE(FlightRecorder::Create(directory.path(), 1, {0, 1}, {0}).ok());
  CHECK_FALSE(std::filesystem::exists(directory.File("elsewhere")));
  CHECK(FlightRecorder::Create("/no/such/place", 0, {0}, {0}).message() ==
        "cannot create /no/such/place/0.ring: No such file or directory");
}

}  // namespace
}  // namespace xla_shmem::observe
