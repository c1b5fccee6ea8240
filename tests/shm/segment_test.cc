// Creation and unlinking of segments, and the removal of segments of dead owners.
#include "xla_patch/shm/segment.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/shm/process_group.h"
#include "tests/shm/test_heap.h"
#include "tests/types/value_of.h"
#include "xla_patch/shm/process_identity.h"

namespace xla_shmem::shm {
namespace {

using testing::ProcessGroup;
using testing::RandomJobKey;
using testing::SegmentsOf;
using testing::ValueOf;

constexpr size_t kBytes = 64 << 10;

bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("A job key is parsed from its hex digits, and nothing else is a key") {
  const JobKey key = RandomJobKey();
  const JobKey parsed = ValueOf(JobKey::Parse(key.Hex()));
  CHECK(parsed.words[0] == key.words[0]);
  CHECK(parsed.words[1] == key.words[1]);
  CHECK(Contains(JobKey::Parse("").message(), "is not 32 lower-case hex digits"));
  CHECK_FALSE(JobKey::Parse(key.Hex() + "0").ok());
  CHECK_FALSE(JobKey::Parse(std::string(31, 'a') + "G").ok());
  CHECK_FALSE(JobKey::Parse("0x" + std::string(30, '1')).ok());
}

TEST_CASE("A segment is private to its user and has the requested size") {
  const JobKey key = RandomJobKey();
  const mode_t before = umask(0);  // so that the mode is the one that Create asks for
  const auto segment = ValueOf(Segment::Create(key, 3, kBytes));
  umask(before);
  CHECK(segment->payload_bytes() == kBytes - kPageBytes);
  struct stat status;
  REQUIRE(stat(("/dev/shm" + SegmentName(key, 3)).c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0600);
  CHECK(status.st_uid == getuid());
  CHECK(static_cast<size_t>(status.st_size) == kBytes);
}

TEST_CASE("All memory of a segment is allocated when it is created") {
  const JobKey key = RandomJobKey();
  const auto segment = ValueOf(Segment::Create(key, 0, kBytes));
  struct stat status;
  REQUIRE(stat(("/dev/shm" + SegmentName(key, 0)).c_str(), &status) == 0);
  CHECK(static_cast<size_t>(status.st_blocks) * 512 >= kBytes);
}

TEST_CASE("A second segment of the same key and process is refused, and the first stays") {
  const JobKey key = RandomJobKey();
  const auto first = ValueOf(Segment::Create(key, 0, kBytes));
  const std::string error = Segment::Create(key, 0, kBytes).message();
  CHECK(Contains(error, SegmentName(key, 0)));
  CHECK(Contains(error, "File exists"));
  CHECK(Contains(error, "start the job again"));
  CHECK(SegmentsOf(key).size() == 1);
}

TEST_CASE("A segment larger than /dev/shm fails, names the way out and leaves nothing") {
  struct statvfs filesystem;
  REQUIRE(statvfs("/dev/shm", &filesystem) == 0);
  const size_t too_many = static_cast<size_t>(filesystem.f_blocks) * filesystem.f_frsize + (size_t{1} << 30);
  const JobKey key = RandomJobKey();
  const std::string error = Segment::Create(key, 0, too_many).message();
  CHECK(Contains(error, std::to_string(too_many) + " bytes"));
  CHECK(Contains(error, "No space left on device"));
  CHECK(Contains(error, "XLA_SHMEM_HEAP_SIZE"));
  CHECK(SegmentsOf(key).empty());
}

TEST_CASE("Signals do not make the creation of a segment fail") {
  // tmpfs stops the allocation if a signal is pending; the timer of a profiler must not cause an error.
  struct sigaction ignore_in_handler = {}, before;
  ignore_in_handler.sa_handler = [](int) {};
  sigaction(SIGALRM, &ignore_in_handler, &before);
  const itimerval often = {{0, 2000}, {0, 2000}}, never = {};
  setitimer(ITIMER_REAL, &often, nullptr);
  const JobKey key = RandomJobKey();
  std::string error;
  const auto segment = ValueOf(Segment::Create(key, 0, 16 << 20));
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  CHECK(segment != nullptr);
}

TEST_CASE("The last of the expected processes to attach unlinks the name") {
  const JobKey key = RandomJobKey();
  const auto owner = ValueOf(Segment::Create(key, 0, kBytes));
  owner->NoteAttached(2);
  CHECK(SegmentsOf(key).size() == 1);
  const auto other = ValueOf(Segment::Attach(key, 0));
  other->NoteAttached(2);
  CHECK(SegmentsOf(key).empty());
  other->payload()[0] = 'x';
  CHECK(owner->payload()[0] == 'x');
}

TEST_CASE("An owner that goes before the others have attached removes the name, an attached process does not") {
  const JobKey key = RandomJobKey();
  auto owner = ValueOf(Segment::Create(key, 0, kBytes));
  auto other = ValueOf(Segment::Attach(key, 0));
  other.reset();
  CHECK(SegmentsOf(key).size() == 1);
  owner.reset();
  CHECK(SegmentsOf(key).empty());
}

TEST_CASE("A forked child that destroys its copy does not unlink its parent's segment") {
  const JobKey key = RandomJobKey();
  auto owner = ValueOf(Segment::Create(key, 0, kBytes));
  ProcessGroup child(1);
  child.Start([&](int) {
    owner.reset();
    return std::string("done");
  });
  CHECK(child.Join(0) == "done");
  CHECK(SegmentsOf(key).size() == 1);
}

TEST_CASE("SweepStale removes the segment of a killed owner and keeps that of a live one") {
  const JobKey dead = RandomJobKey(), living = RandomJobKey();
  std::string error;
  const auto alive = ValueOf(Segment::Create(living, 0, kBytes));
  ProcessGroup child(1);
  child.Start([&](int) {
    const auto segment = ValueOf(Segment::Create(dead, 0, kBytes));
    raise(SIGKILL);
    return std::string("alive");
  });
  CHECK(child.Join(0) == "signal 9");
  CHECK(SegmentsOf(dead).size() == 1);
  CHECK(SweepStale() >= 1);
  CHECK(SegmentsOf(dead).empty());
  CHECK(SegmentsOf(living).size() == 1);
}

TEST_CASE("SweepStale removes the segment of an owner that was killed while it allocated memory") {
  const JobKey key = RandomJobKey();
  ProcessGroup child(1);
  child.Start([&](int) {
    std::string error;
    const auto segment = ValueOf(Segment::Create(key, 0, kBytes));
    segment->header().magic.store(0);  // its value until all memory is allocated
    raise(SIGKILL);
    return std::string("alive");
  });
  CHECK(child.Join(0) == "signal 9");
  SweepStale();
  CHECK(SegmentsOf(key).empty());
}

TEST_CASE("SweepStale keeps segments whose owner is not certainly dead") {
  const JobKey key = RandomJobKey();
  const auto segment = ValueOf(Segment::Create(key, 0, kBytes));
  SegmentHeader& header = segment->header();
  SUBCASE("owner not known yet") { header.pid.store(0); }
  SUBCASE("owner in another pid namespace") {
    header.pid_namespace ^= 1;
    header.pid.store(1 << 30);
  }
  SUBCASE("another magic") {
    header.magic.store(42);
    header.pid.store(1 << 30);
  }
  SweepStale();
  CHECK(SegmentsOf(key).size() == 1);
  segment->Unlink();
}

TEST_CASE("A FIFO with the name of a segment is refused and does not hang") {
  const JobKey key = RandomJobKey();
  const std::string path = "/dev/shm" + SegmentName(key, 0);
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  SweepStale();
  const std::string error = Segment::Attach(key, 0).message();
  CHECK(Contains(error, "not a shared-memory object"));
  unlink(path.c_str());
}

TEST_CASE("A segment is allocated under a timer whose ticks are closer than the time for all of it") {
  constexpr size_t kLarge = 192 << 20;
  struct statvfs space{};
  if (statvfs("/dev/shm", &space) != 0 || space.f_bavail * space.f_frsize < 2 * kLarge) {
    MESSAGE("/dev/shm is too small for this test");
    return;
  }
  const JobKey key = RandomJobKey();
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    struct sigaction tick{};
    tick.sa_handler = [](int) {};
    sigaction(SIGPROF, &tick, nullptr);
    const itimerval each{{0, 4000}, {0, 4000}};  // of processor time
    setitimer(ITIMER_PROF, &each, nullptr);
    const bool created = Segment::Create(key, 0, kLarge).ok();
    _exit(created ? 0 : 1);
  }
  int status;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  SweepStale();
}

TEST_CASE("A reused pid is not taken for the owner") {
  const JobKey key = RandomJobKey();
  const auto segment = ValueOf(Segment::Create(key, 0, kBytes));
  CHECK(segment->OwnerState() == ProcessState::kRuns);
  segment->header().pid_start_time += 1;  // the same pid, started at another time
  CHECK(segment->OwnerState() == ProcessState::kGone);
  SweepStale();
  CHECK(SegmentsOf(key).empty());
}

TEST_CASE("A zombie counts as exited") {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  siginfo_t info;
  REQUIRE(waitid(P_PID, child, &info, WEXITED | WNOWAIT) == 0);  // exited and not reaped
  CHECK(ProcessStartTime(child) == 0);
  waitpid(child, nullptr, 0);
  CHECK(ProcessStartTime(child) == 0);
  CHECK(ProcessStartTime(getpid()) != 0);
}

TEST_CASE("Processes that a signal or a debugger has stopped, that run and that are gone are told apart") {
  const pid_t child = fork();
  if (child == 0) {
    while (true) pause();
  }
  int status;
  const uint64_t start = ProcessStartTime(child);
  CHECK(StateOf(child, start) == ProcessState::kRuns);
  kill(child, SIGSTOP);
  REQUIRE(waitpid(child, &status, WUNTRACED) == child);
  CHECK(StateOf(child, start) == ProcessState::kStopped);
  kill(child, SIGCONT);
  REQUIRE(waitpid(child, &status, WCONTINUED) == child);
  CHECK(StateOf(child, start) == ProcessState::kRuns);
  CHECK(StateOf(child, start + 1) == ProcessState::kGone);  // another process had this pid
  if (ptrace(PTRACE_ATTACH, child, nullptr, nullptr) == 0) {
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(StateOf(child, start) == ProcessState::kTraced);
    ptrace(PTRACE_DETACH, child, nullptr, nullptr);
  } else {
    MESSAGE("this system lets nobody trace a child");
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  CHECK(StateOf(child, start) == ProcessState::kGone);
}

}  // namespace
}  // namespace xla_shmem::shm
