// A directory that is removed at the end of its scope.
#ifndef XLA_SHMEM_TESTS_RUNTIME_OBSERVE_TEMPORARY_DIRECTORY_H_
#define XLA_SHMEM_TESTS_RUNTIME_OBSERVE_TEMPORARY_DIRECTORY_H_

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace xla_shmem::observe {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "observe_test.XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  std::string Read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(File(name), std::ios::binary).rdbuf();
    return text.str();
  }

 private:
  std::string path_;
};

}  // namespace xla_shmem::observe

#endif  // XLA_SHMEM_TESTS_RUNTIME_OBSERVE_TEMPORARY_DIRECTORY_H_
