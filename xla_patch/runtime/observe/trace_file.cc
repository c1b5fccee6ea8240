#include "xla_patch/runtime/observe/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cinttypes>
#include <cstdio>

namespace xla_shmem::observe {
namespace {

constexpr size_t kFlushBytes = 1 << 20;

double InMicroseconds(uint64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; }

// `text` as a JSON string, with its quotes. Bytes outside ASCII stay unchanged, because HLO names are UTF-8.
std::string JsonString(const std::string& text) {
  std::string quoted = "\"";
  for (const char character : text) {
    if (character == '"' || character == '\\') {
      quoted += '\\';
      quoted += character;
    } else if (static_cast<unsigned char>(character) < 0x20) {
      char escape[8];
      snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(character));
      quoted += escape;
    } else {
      quoted += character;
    }
  }
  return quoted + '"';
}

// What of the time was spent waiting and moving data, as further members of the event.
std::string ShareOf(const Finished& execution) {
  if (!execution.moved_ns.has_value()) return "";
  char text[120];
  const uint64_t waited_ns = execution.total_ns() - std::min(*execution.moved_ns, execution.total_ns());
  snprintf(text, sizeof(text), R"(, "waited_us": %.3f, "moved_us": %.3f, "inline": %s)", InMicroseconds(waited_ns),
           InMicroseconds(*execution.moved_ns), execution.is_inline ? "true" : "false");
  return text;
}

}  // namespace

Result<std::unique_ptr<TraceFile>> TraceFile::Open(const std::string& path, int process, const std::vector<int>& pes) {
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
  std::unique_ptr<TraceFile> trace(new TraceFile(file));
  for (const int pe : pes) {
    const std::string name = "PE " + std::to_string(pe) + " (process " + std::to_string(process) + ")";
    trace->buffer_ += R"({"name": "process_name", "ph": "M", "pid": )" + std::to_string(pe) + R"(, "args": {"name": )" +
                      JsonString(name) + "}},\n";
    trace->buffer_ += R"({"name": "process_sort_index", "ph": "M", "pid": )" + std::to_string(pe) +
                      R"(, "args": {"sort_index": )" + std::to_string(pe) + "}},\n";
  }
  return trace;
}

TraceFile::~TraceFile() {
  Flush();
  close(file_);
}

void TraceFile::Add(const Site& site, const Finished& execution) {
  std::lock_guard<std::mutex> lock(mutex_);
  char numbers[400];
  snprintf(numbers, sizeof(numbers),
           R"("ph": "X", "pid": %d, "tid": %d, "ts": %.3f, "dur": %.3f, "args": {"bytes": %)" PRIu64
           R"(, "run": %)" PRIu64 R"(, "in_run": %)" PRIu64,
           execution.pe, execution.track.has_value() ? *execution.track : FreeTrack(execution),
           InMicroseconds(execution.start_ns), InMicroseconds(execution.total_ns()), execution.bytes,
           execution.execution >> 32, execution.execution & 0xffffffff);
  buffer_ += "{\"name\": " + JsonString(site.name) + ", \"cat\": " + JsonString(site.op) + ", " + numbers +
             (site.source.empty() ? "" : R"(, "source": )" + JsonString(site.source)) +
             (site.on_default_backend ? R"(, "backend": "default")" : "") + ShareOf(execution) + "}},\n";
  if (buffer_.size() >= kFlushBytes) FlushLocked();
}

int TraceFile::FreeTrack(const Finished& execution) {
  std::vector<uint64_t>& ends = ends_[execution.pe];
  auto track = std::find_if(ends.begin(), ends.end(), [&](uint64_t end_ns) { return end_ns <= execution.start_ns; });
  if (track == ends.end()) track = ends.insert(ends.end(), 0);
  assert(*track <= execution.start_ns);
  *track = execution.end_ns;
  return static_cast<int>(track - ends.begin());
}

void TraceFile::Flush() {
  std::lock_guard<std::mutex> lock(mutex_);
  FlushLocked();
}

// Writes whole lines at once, so that lines of other processes do not split them. A full disk ends the trace and does
// not fail the job.
void TraceFile::FlushLocked() {
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
