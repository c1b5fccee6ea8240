#include "xla_patch/runtime/observe/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "xla_patch/runtime/observe/json_text.h"

namespace xla_shmem::observe {
namespace {

constexpr size_t kFlushBytes = 1 << 20;

double Microseconds(uint64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; }

// What of the time was spent waiting and copying, as further members of the event.
std::string ShareOf(const Measurement& measurement) {
  if (!measurement.copied_ns.has_value()) return "";
  char text[120];
  const uint64_t waited_ns = measurement.total_ns - std::min(*measurement.copied_ns, measurement.total_ns);
  snprintf(text, sizeof(text), R"(, "waited_us": %.3f, "moved_us": %.3f, "inline": %s)", Microseconds(waited_ns),
           Microseconds(*measurement.copied_ns), measurement.is_inline ? "true" : "false");
  return text;
}

}  // namespace

Result<std::unique_ptr<Trace>> Trace::Open(const std::string& path, int process, const std::vector<int>& pes) {
  constexpr int kAppend = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
  int file = open(path.c_str(), kAppend | O_CREAT | O_EXCL, 0600);
  // The process that creates the file begins the list. The other processes write their first lines much later.
  if (file >= 0) {
    [[maybe_unused]] const ssize_t begun = write(file, "[\n", 2);
  } else if (errno == EEXIST) {
    file = open(path.c_str(), kAppend);
    struct stat found;
    // Another user may have made it, or a link to a file of this user.
    if (file >= 0 &&
        (fstat(file, &found) != 0 || found.st_uid != geteuid() || !S_ISREG(found.st_mode) || found.st_nlink != 1)) {
      close(file);
      return Status::Error("cannot write " + path + ": it is not a regular file of user " + std::to_string(geteuid()) +
                           " with one name; remove it, or set XLA_SHMEM_TRACE to another");
    }
  }
  if (file < 0) return Status::Error("cannot write " + path + ": " + strerror(errno));
  std::unique_ptr<Trace> trace(new Trace(file));
  for (const int pe : pes) {
    const std::string name = "PE " + std::to_string(pe) + " (process " + std::to_string(process) + ")";
    trace->buffer_ += R"({"name": "process_name", "ph": "M", "pid": )" + std::to_string(pe) + R"(, "args": {"name": )" +
                      JsonString(name) + "}},\n";
    trace->buffer_ += R"({"name": "process_sort_index", "ph": "M", "pid": )" + std::to_string(pe) +
                      R"(, "args": {"sort_index": )" + std::to_string(pe) + "}},\n";
  }
  return trace;
}

Trace::~Trace() {
  Flush();
  close(file_);
}

int Trace::Begin(int pe) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<bool>& taken = taken_[pe];
  const auto free = std::find(taken.begin(), taken.end(), false);
  const int track = static_cast<int>(free - taken.begin());
  if (free == taken.end()) {
    taken.push_back(true);
  } else {
    *free = true;
  }
  return track;
}

void Trace::End(int pe, int track, const std::string& op, const std::string& name, uint64_t execution,
                uint64_t start_ns, const Measurement& measurement) {
  char numbers[400];
  snprintf(numbers, sizeof(numbers),
           R"("ph": "X", "pid": %d, "tid": %d, "ts": %.3f, "dur": %.3f, "args": {"bytes": %)" PRIu64
           R"(, "run": %)" PRIu64 R"(, "in_run": %)" PRIu64,
           pe, track, Microseconds(start_ns), Microseconds(measurement.total_ns), measurement.bytes, execution >> 32,
           execution & 0xffffffff);
  const std::string line = "{\"name\": " + JsonString(name) + ", \"cat\": " + JsonString(op) + ", " + numbers +
                           ShareOf(measurement) + "}},\n";
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<bool>& taken = taken_[pe];
  if (static_cast<size_t>(track) < taken.size()) taken[track] = false;  // else the caller has chosen the track
  buffer_ += line;
  if (buffer_.size() >= kFlushBytes) FlushLocked();
}

void Trace::Flush() {
  std::lock_guard<std::mutex> lock(mutex_);
  FlushLocked();
}

// Writes whole lines at once, so that lines of other processes do not split them. A full disk ends the trace and does
// not fail the job.
void Trace::FlushLocked() {
  size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t written = write(file_, buffer_.data() + done, buffer_.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    done += static_cast<size_t>(written);
  }
  buffer_.clear();
}

}  // namespace xla_shmem::observe
