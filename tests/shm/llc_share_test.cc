#include "xla_patch/shm/llc_share.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace xla_shmem::shm {
namespace {

// A folder like Linux's, with the caches of a test.
class Caches {
 public:
  Caches() {
    char name[] = "/tmp/xla_shmem_caches_XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    path_ = name;
  }
  ~Caches() { std::filesystem::remove_all(path_); }

  void Add(int index, int level, const std::string& size, const std::string& processors) {
    const std::string cache = path_ + "/index" + std::to_string(index);
    std::filesystem::create_directory(cache);
    std::ofstream(cache + "/level") << level << "\n";
    std::ofstream(cache + "/size") << size << "\n";
    std::ofstream(cache + "/shared_cpu_list") << processors << "\n";
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// "0-7" for 8.
std::string FirstProcessors(size_t count) { return "0-" + std::to_string(count - 1); }

TEST_CASE("The PEs share the last level") {
  const auto processors = static_cast<size_t>(sysconf(_SC_NPROCESSORS_ONLN));
  Caches caches;
  caches.Add(0, 1, "32K", "0");
  caches.Add(1, 3, "32768K", FirstProcessors(processors));
  caches.Add(2, 2, "1024K", "0");
  CHECK(LlcShare(1, caches.path()) == 32 << 20);
  CHECK(LlcShare(2, caches.path()) == 16 << 20);
  CHECK(LlcShare(8, caches.path()) == 4 << 20);
}

TEST_CASE("A cache of some processors is shared by the PEs that run there") {
  const auto processors = static_cast<size_t>(sysconf(_SC_NPROCESSORS_ONLN));
  const int pes = static_cast<int>(4 * processors);  // four on each processor
  Caches caches;
  caches.Add(0, 3, "16384K", "0");
  CHECK(LlcShare(pes, caches.path()) == 4 << 20);
  CHECK(LlcShare(0, caches.path()) == 16 << 20);
  caches.Add(0, 3, "16384K", "0,9");
  CHECK(LlcShare(pes, caches.path()) == 2 << 20);
  caches.Add(0, 3, "16384K", "0-1,8-9");
  CHECK(LlcShare(pes, caches.path()) == 1 << 20);
}

TEST_CASE("Without information from the system the share is unlimited") {
  Caches caches;
  CHECK(LlcShare(2, caches.path()) == SIZE_MAX);
  caches.Add(0, 1, "what", "0");
  CHECK(LlcShare(2, caches.path()) == SIZE_MAX);
}

}  // namespace
}  // namespace xla_shmem::shm
