// The errors of Segment::Attach.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <utility>

#include "tests/shm/process_group.h"
#include "tests/shm/test_heap.h"
#include "tests/types/value_of.h"
#include "xla_patch/shm/segment.h"

namespace xla_shmem::shm {
namespace {

using testing::RandomJobKey;
using testing::ValueOf;

constexpr size_t kBytes = 64 << 10;

bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// The error of Attach for a good segment that `spoil` has changed.
std::string ErrorAfter(const std::function<void(SegmentHeader&, const std::string& path)>& spoil) {
  const JobKey key = RandomJobKey();
  const auto owner = ValueOf(Segment::Create(key, 0, kBytes));
  spoil(owner->header(), "/dev/shm" + SegmentName(key, 0));
  const std::string error = Segment::Attach(key, 0).message();
  CHECK(Contains(error, SegmentName(key, 0)));
  return error;
}

TEST_CASE("An attached segment is the same memory") {
  const JobKey key = RandomJobKey();
  const auto owner = ValueOf(Segment::Create(key, 7, kBytes));
  const auto other = ValueOf(Segment::Attach(key, 7));
  CHECK(other->payload_bytes() == owner->payload_bytes());
  CHECK(other->header().process == 7);
  CHECK(other->OwnerState() == ProcessState::kRuns);
  owner->payload()[kBytes - kPageBytes - 1] = 'z';
  CHECK(other->payload()[kBytes - kPageBytes - 1] == 'z');
}

TEST_CASE("A segment that does not exist is not found") {
  const std::string error = Segment::Attach(RandomJobKey(), 5).message();
  CHECK(Contains(error, "of process 5"));
  CHECK(Contains(error, "No such file"));
}

TEST_CASE("A segment with another job key in its header is refused") {
  CHECK(Contains(ErrorAfter([](SegmentHeader& header, const std::string&) { header.job_key[1] ^= 1; }), "another job"));
}

TEST_CASE("A segment of another process in its header is refused") {
  CHECK(Contains(ErrorAfter([](SegmentHeader& header, const std::string&) { header.process = 1; }), "another job"));
}

TEST_CASE("A segment with any mode but 0600 is refused") {
  for (const mode_t mode : {0620, 0660, 0640, 0610, 0602, 0604, 0601, 0666, 0700, 0400}) {
    CAPTURE(mode);
    const std::string error =
        ErrorAfter([&](SegmentHeader&, const std::string& path) { REQUIRE(chmod(path.c_str(), mode) == 0); });
    // Without root's rights a file that its owner may not write does not even open.
    CHECK((Contains(error, "mode") || (mode == 0400 && Contains(error, "Permission denied"))));
  }
}

TEST_CASE("A truncated segment is refused before it is read") {
  CHECK(Contains(
      ErrorAfter([](SegmentHeader&, const std::string& path) { REQUIRE(truncate(path.c_str(), kBytes / 2) == 0); }),
      "size"));
  CHECK(Contains(
      ErrorAfter([](SegmentHeader&, const std::string& path) { REQUIRE(truncate(path.c_str(), kPageBytes) == 0); }),
      "only 4096 bytes"));
}

TEST_CASE("A segment that is not complete, or is no segment, is refused") {
  CHECK(Contains(ErrorAfter([](SegmentHeader& header, const std::string&) { header.magic.store(0); }),
                 "not an xla-shmem segment"));
}

TEST_CASE("A segment of another layout version is refused with both versions") {
  const std::string error = ErrorAfter([](SegmentHeader& header, const std::string&) { header.version = 77; });
  CHECK(Contains(error, "version is 77"));
  CHECK(Contains(error, "ours is " + std::to_string(kSegmentVersion)));
}

TEST_CASE("A symlink is not followed") {
  const JobKey real = RandomJobKey(), fake = RandomJobKey();
  const auto owner = ValueOf(Segment::Create(real, 0, kBytes));
  const std::string link = "/dev/shm" + SegmentName(fake, 0);
  REQUIRE(symlink(("/dev/shm" + SegmentName(real, 0)).c_str(), link.c_str()) == 0);
  const std::string error = Segment::Attach(fake, 0).message();
  CHECK(Contains(error, "symbolic link"));
  // Create does not write through it either.
  CHECK_FALSE(Segment::Create(fake, 0, kBytes).ok());
  unlink(link.c_str());
}

TEST_CASE("Another user's segment is refused with that user in the error, and never swept") {
  if (getuid() != 0) return;  // only root can be two users
  constexpr uid_t kNobody = 65534;
  const JobKey key = RandomJobKey();
  const std::string ours = SegmentName(key, 0);
  testing::ProcessGroup child(1);
  child.Start([&](int) -> std::string {
    if (setuid(kNobody) != 0) return "setuid failed";
    const int file = shm_open(ours.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    return file >= 0 && ftruncate(file, kBytes) == 0 ? "made" : "not made";
  });
  REQUIRE(child.Join(0) == "made");
  const std::string error = Segment::Attach(key, 0).message();
  CHECK(Contains(error, "belongs to user 65534"));
  SweepStale();
  CHECK(testing::SegmentsOf(key).size() == 1);
  shm_unlink(ours.c_str());
}

}  // namespace
}  // namespace xla_shmem::shm
