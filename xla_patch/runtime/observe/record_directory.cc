#include "xla_patch/runtime/observe/record_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>

namespace xla_shmem::observe {
namespace {

// Somebody else may have made it before.
Status MakeOwnDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return Status::Error(path + ": " + std::strerror(errno));
  struct stat found;
  if (lstat(path.c_str(), &found) != 0) return Status::Error(path + ": " + std::strerror(errno));
  if (S_ISDIR(found.st_mode) && found.st_uid == getuid()) return {};
  return Status::Error(path + " is not a directory of user " + std::to_string(getuid()));
}

}  // namespace

std::string NewJobName() {
  std::random_device random;
  const uint64_t number = (uint64_t{random()} << 32) | random();
  char name[32];
  snprintf(name, sizeof(name), "gpu-%016llx", static_cast<unsigned long long>(number));
  return name;
}

Result<std::string> MakeRecordDirectory(const std::string& setting, const std::string& job) {
  if (setting == "off") return std::string();
  std::error_code error;
  std::filesystem::path root = setting;
  if (setting == "auto") {
    root = std::filesystem::temp_directory_path(error) / ("xla-shmem-" + std::to_string(getuid()));
  }
  std::filesystem::create_directories(root.parent_path(), error);  // the next call reports what fails
  XLA_SHMEM_RETURN_IF_ERROR(MakeOwnDirectory(root.string()));
  std::string directory = (root / job).string();
  XLA_SHMEM_RETURN_IF_ERROR(MakeOwnDirectory(directory));
  return directory;
}

}  // namespace xla_shmem::observe
