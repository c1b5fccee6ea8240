#include "xla_patch/runtime/observe/record_directory.h"

#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace xla_shmem::observe {
namespace {

std::string NewFolder() {
  char folder[] = "/tmp/record_directory_test_XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  return folder;
}

TEST_CASE("a job has a directory that only its user reads") {
  const std::string folder = NewFolder();
  const Result<std::string> made = MakeRecordDirectory(folder + "/deeper/records", "gpu-1");
  REQUIRE(made.ok());
  CHECK(*made == folder + "/deeper/records/gpu-1");
  struct stat found;
  REQUIRE(stat(made->c_str(), &found) == 0);
  CHECK((found.st_mode & 0777) == 0700);
  // The other processes of the job find it.
  CHECK(*MakeRecordDirectory(folder + "/deeper/records", "gpu-1") == *made);
  std::filesystem::remove_all(folder);
}

TEST_CASE("auto is a folder of the user among the temporary files, and off is none") {
  const std::string folder = NewFolder();
  REQUIRE(setenv("TMPDIR", folder.c_str(), 1) == 0);
  CHECK(*MakeRecordDirectory("auto", "gpu-1") == folder + "/xla-shmem-" + std::to_string(getuid()) + "/gpu-1");
  REQUIRE(unsetenv("TMPDIR") == 0);
  CHECK(MakeRecordDirectory("off", "gpu-1")->empty());
  std::filesystem::remove_all(folder);
}

TEST_CASE("a link and a file are refused") {
  const std::string folder = NewFolder();
  std::filesystem::create_directory_symlink("/tmp", folder + "/link");
  CHECK(MakeRecordDirectory(folder + "/link", "gpu-1").message() ==
        folder + "/link is not a directory of user " + std::to_string(getuid()));
  CHECK_FALSE(MakeRecordDirectory("/proc/self/status", "gpu-1").ok());
  std::filesystem::remove_all(folder);
}

TEST_CASE("names of jobs differ") { CHECK(NewJobName() != NewJobName()); }

}  // namespace
}  // namespace xla_shmem::observe
