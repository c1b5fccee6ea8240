#include "xla_patch/runtime/observe/flight_recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "xla_patch/runtime/observe/json_text.h"

namespace xla_shmem::observe {
namespace {

constexpr char kMagic[] = "XSHMFR1\n";

std::string RingPath(const std::string& directory, int process) {
  return directory + "/" + std::to_string(process) + ".ring";
}

std::string SitesPath(const std::string& directory, int process) {
  return directory + "/" + std::to_string(process) + ".sites";
}

Status CannotCreate(const std::string& path, int code) {
  return Status::Error("cannot create " + path + ": " + strerror(code));
}

// Creates a file that only this user can read. Follows no symlink and opens no existing file.
int CreateFile(const std::string& path, int flags) {
  return open(path.c_str(), O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
}

int64_t Nanoseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

size_t PeBytes() { return sizeof(PeHeader) + FlightRecorder::kEntries * sizeof(Entry); }

std::string SiteLine(uint32_t number, const Site& site) {
  std::string line = "{\"site\": " + std::to_string(number) + ", \"operation\": " + std::to_string(site.operation) +
                     ", \"op\": " + JsonString(site.op) + ", \"name\": " + JsonString(site.name) + ", " +
                     (site.is_pairs ? "\"pairs\": [" : "\"groups\": [");
  for (size_t group = 0; group < site.groups.size(); ++group) {
    line += group == 0 ? "[" : ", [";
    for (size_t i = 0; i < site.groups[group].size(); ++i) {
      line += (i == 0 ? "" : ", ") + std::to_string(site.groups[group][i]);
    }
    line += ']';
  }
  return line + "]}\n";
}

// The outcome that the ring file at `path` records.
Outcome OutcomeAt(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  uint32_t outcome = 0;
  const bool was_read =
      file >= 0 && pread(file, &outcome, sizeof(outcome), offsetof(RingHeader, outcome)) == sizeof(outcome);
  if (file >= 0) close(file);
  return was_read ? static_cast<Outcome>(outcome) : Outcome::kRunning;
}

}  // namespace

uint64_t MonotonicNanoseconds() { return static_cast<uint64_t>(Nanoseconds(CLOCK_MONOTONIC)); }

Result<std::unique_ptr<FlightRecorder>> FlightRecorder::Create(const std::string& directory, int process,
                                                               std::vector<int> processes,
                                                               const std::vector<int>& pes) {
  const std::string ring = RingPath(directory, process);
  const std::string sites = SitesPath(directory, process);
  const size_t bytes = sizeof(RingHeader) + pes.size() * PeBytes();
  const int sites_file = CreateFile(sites, O_WRONLY | O_APPEND);
  if (sites_file < 0) return CannotCreate(sites, errno);
  const int ring_file = CreateFile(ring, O_RDWR);
  // Allocates the space now, so that a full disk is an error here and not a SIGBUS later.
  int code = ring_file < 0 ? errno : posix_fallocate(ring_file, 0, static_cast<off_t>(bytes));
  void* mapping = MAP_FAILED;
  if (code == 0) {
    mapping = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring_file, 0);
    if (mapping == MAP_FAILED) code = errno;
  }
  if (mapping == MAP_FAILED) {
    if (ring_file >= 0) unlink(ring.c_str());
    unlink(sites.c_str());
    close(sites_file);
  }
  if (ring_file >= 0) close(ring_file);
  if (mapping == MAP_FAILED) return CannotCreate(ring, code);
  std::unique_ptr<FlightRecorder> recorder(
      new FlightRecorder(directory, std::move(processes), sites_file, mapping, bytes));
  RingHeader* header = recorder->header_;
  header->pid = static_cast<uint32_t>(getpid());
  header->process = static_cast<uint32_t>(process);
  header->processes = static_cast<uint32_t>(recorder->processes_.size());
  header->n_pes = static_cast<uint32_t>(pes.size());
  header->wall_offset_ns = Nanoseconds(CLOCK_REALTIME) - Nanoseconds(CLOCK_MONOTONIC);
  for (size_t i = 0; i < pes.size(); ++i) {
    recorder->HeaderOf(i)->pe = static_cast<uint32_t>(pes[i]);
    recorder->HeaderOf(i)->entries = kEntries;
  }
  memcpy(header->magic, kMagic, sizeof(header->magic));
  return recorder;
}

FlightRecorder::FlightRecorder(std::string directory, std::vector<int> processes, int sites_file, void* mapping,
                               size_t bytes)
    : directory_(std::move(directory)),
      processes_(std::move(processes)),
      sites_file_(sites_file),
      header_(static_cast<RingHeader*>(mapping)),
      bytes_(bytes) {}

FlightRecorder::~FlightRecorder() {
  munmap(header_, bytes_);
  close(sites_file_);
}

PeHeader* FlightRecorder::HeaderOf(size_t index) const {
  return reinterpret_cast<PeHeader*>(reinterpret_cast<char*>(header_) + sizeof(RingHeader) + index * PeBytes());
}

uint32_t FlightRecorder::AddSite(const Site& site) {
  std::lock_guard<std::mutex> lock(mutex_);
  const uint32_t number = sites_++;
  const std::string line = SiteLine(number, site);
  // One write a line, so that a reader sees a partial line only at the end. A full disk loses names and does not fail
  // the job.
  [[maybe_unused]] const ssize_t written = write(sites_file_, line.data(), line.size());
  return number;
}

Entry* FlightRecorder::Begin(int pe, uint32_t site, uint64_t execution, uint64_t bytes, uint64_t start_ns,
                             uint64_t* sequence, State state) {
  for (size_t i = 0; i < header_->n_pes; ++i) {
    PeHeader* header = HeaderOf(i);
    if (header->pe != static_cast<uint32_t>(pe)) continue;
    *sequence = header->next.fetch_add(1, std::memory_order_relaxed) + 1;
    Entry* entry = reinterpret_cast<Entry*>(header + 1) + *sequence % kEntries;
    // Before the fields, so that a reader does not mix them with the old sequence number. An exchange, because
    // ThreadSanitizer does not model fences.
    entry->sequence.exchange(0, std::memory_order_acq_rel);
    entry->execution = execution;
    entry->site = site;
    entry->state.store(static_cast<uint32_t>(state), std::memory_order_relaxed);
    entry->bytes = bytes;
    entry->start_ns = start_ns;
    entry->end_ns = 0;
    entry->sequence.store(*sequence, std::memory_order_release);
    return entry;
  }
  return nullptr;
}

void FlightRecorder::Set(Entry* entry, uint64_t sequence, State state, uint64_t end_ns) {
  if (entry == nullptr || entry->sequence.load(std::memory_order_acquire) != sequence) return;
  entry->end_ns = end_ns;
  entry->state.store(static_cast<uint32_t>(state), std::memory_order_release);
}

void FlightRecorder::Fail(const std::string& why) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (header_->failure[0] != '\0') return;
  const size_t length = std::min(why.size(), sizeof(header_->failure) - 1);
  memcpy(header_->failure, why.data(), length);
  header_->outcome.store(static_cast<uint32_t>(Outcome::kFailed), std::memory_order_release);
}

void FlightRecorder::Close() {
  uint32_t running = static_cast<uint32_t>(Outcome::kRunning);
  header_->outcome.compare_exchange_strong(running, static_cast<uint32_t>(Outcome::kExited));
  // One process at a time, so that exactly one finds itself to be the last.
  const int lock = open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock < 0 || flock(lock, LOCK_EX) != 0) {
    if (lock >= 0) close(lock);
    return;
  }
  bool all_exited = true;
  for (const int process : processes_) all_exited &= OutcomeAt(RingPath(directory_, process)) == Outcome::kExited;
  if (all_exited) {
    for (const int process : processes_) {
      unlink(RingPath(directory_, process).c_str());
      unlink(SitesPath(directory_, process).c_str());
    }
    rmdir(directory_.c_str());
    // The directory of all jobs is ours too, unless the user has named it. It stays if it holds other jobs.
    const std::string root = directory_.substr(0, directory_.rfind('/'));
    if (root.substr(root.rfind('/') + 1) == "xla-shmem-" + std::to_string(getuid())) rmdir(root.c_str());
  }
  close(lock);
}

}  // namespace xla_shmem::observe
