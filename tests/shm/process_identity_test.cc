#include "xla_patch/shm/process_identity.h"

#include <doctest/doctest.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <vector>

#include "tests/shm/test_heap.h"
#include "xla_patch/shm/segment.h"

namespace {

std::vector<unsigned long> permitted;

}  // namespace

// Yama tells nobody what it was asked, so this takes the place of the C library's function.
extern "C" int prctl(int option, ...) noexcept {
  unsigned long arguments[4];
  va_list list;
  va_start(list, option);
  for (unsigned long& argument : arguments) argument = va_arg(list, unsigned long);
  va_end(list);
  if (option == PR_SET_PTRACER) permitted.push_back(arguments[0]);
  return static_cast<int>(syscall(SYS_prctl, option, arguments[0], arguments[1], arguments[2], arguments[3]));
}

namespace xla_shmem::shm {
namespace {

TEST_CASE("Only the launcher's processes may read this one, all of the user's if asked for, and none if turned off") {
  permitted.clear();
  PermitReaders(Readers::kSiblings);
  PermitReaders(Readers::kUser);
  PermitReaders(Readers::kNobody);
  const auto parent = static_cast<unsigned long>(getppid());
  CHECK(permitted == std::vector<unsigned long>{parent, PR_SET_PTRACER_ANY, 0});
}

TEST_CASE("A segment alone permits nobody to read the process") {
  permitted.clear();
  const JobKey key = testing::RandomJobKey();
  CHECK(Segment::Create(key, 0, 1 << 20).ok());
  CHECK(permitted.empty());
}

}  // namespace
}  // namespace xla_shmem::shm
