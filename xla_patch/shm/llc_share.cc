#include "xla_patch/shm/llc_share.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>

namespace xla_shmem::shm {
namespace {

// The number at the start of a file ("32768K"); 0 if there is none.
size_t NumberIn(const std::string& path) {
  std::ifstream file(path);
  size_t value = 0;
  return file >> value ? value : 0;
}

// The number of processors in a list like "0-3,8"; at least one.
size_t ProcessorsIn(const std::string& path) {
  std::ifstream file(path);
  size_t count = 0;
  for (std::string range; std::getline(file, range, ',');) {
    std::istringstream text(range);
    size_t first = 0, last = 0;
    char dash = 0;
    if (!(text >> first)) continue;
    if (!(text >> dash >> last)) last = first;
    count += last >= first ? last - first + 1 : 0;
  }
  return std::max<size_t>(count, 1);
}

}  // namespace

size_t LlcShare(int pes, const std::string& caches) {
  std::string last;
  size_t last_level = 0;
  for (int index = 0;; ++index) {
    const std::string cache = caches + "/index" + std::to_string(index);
    const size_t level = NumberIn(cache + "/level");
    if (level == 0) break;
    if (level > last_level) last = cache, last_level = level;
  }
  const size_t kib = last.empty() ? 0 : NumberIn(last + "/size");
  if (kib == 0) return SIZE_MAX;
  const auto processors = static_cast<size_t>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L));
  const size_t sharing = static_cast<size_t>(pes) * ProcessorsIn(last + "/shared_cpu_list") / processors;
  return (kib << 10) / std::max<size_t>(sharing, 1);
}

}  // namespace xla_shmem::shm
