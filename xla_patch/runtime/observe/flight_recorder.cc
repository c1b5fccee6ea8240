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
#include <cassert>
#include <utility>

#include "xla_patch/shm/process_identity.h"

namespace xla_shmem::observe {
namespace {

constexpr char kMagic[] = "XSHMFR5\n";

Status CannotCreate(const std::string& path, int code) {
  return Status::Error("cannot create " + path + ": " + strerror(code));
}

// Creates a file that only this user can read. Follows no symlink and opens no existing file.
int CreateFile(const std::string& path) {
  return open(path.c_str(), O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_RDWR, 0600);
}

template <typename Number>
void Append(Number value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// The record of a site, as SiteRecord describes it.
std::string Encode(uint32_t number, const Site& site) {
  const Origin& origin = site.origin;
  std::string behind = site.op + site.name + site.source + origin.contents;
  for (const std::vector<int>& group : site.groups) Append(static_cast<uint32_t>(group.size()), &behind);
  for (const std::vector<int>& group : site.groups) {
    for (const int pe : group) Append(static_cast<uint32_t>(pe), &behind);
  }
  for (const std::vector<uint64_t>* numbers : {&origin.operand_sources, &origin.branches}) {
    for (const uint64_t number : *numbers) Append(number, &behind);
  }
  behind.resize((behind.size() + 7) / 8 * 8);
  SiteRecord record{};
  record.operation = site.operation;
  record.program = origin.program;
  record.form = origin.form;
  record.bytes = static_cast<uint32_t>(sizeof(record) + behind.size());
  record.number = number;
  record.traits =
      (site.is_pairs ? site_trait::kPairs : 0) | (site.on_default_backend ? site_trait::kOnDefaultBackend : 0);
  record.n_groups = static_cast<uint32_t>(site.groups.size());
  record.op_bytes = static_cast<uint32_t>(site.op.size());
  record.name_bytes = static_cast<uint32_t>(site.name.size());
  record.source_bytes = static_cast<uint32_t>(site.source.size());
  record.contents_bytes = static_cast<uint32_t>(origin.contents.size());
  record.place = origin.place;
  record.part = origin.part;
  record.n_operand_sources = static_cast<uint32_t>(origin.operand_sources.size());
  record.n_branches = static_cast<uint32_t>(origin.branches.size());
  return std::string(reinterpret_cast<const char*>(&record), sizeof(record)) + behind;
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

uint64_t MonotonicNanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

std::string FlightRecorder::PathOf(const std::string& directory, int process) {
  return directory + "/" + std::to_string(process) + ".ring";
}

Result<std::unique_ptr<FlightRecorder>> FlightRecorder::Create(const std::string& directory, int process,
                                                               std::vector<int> processes,
                                                               const std::vector<int>& pes) {
  const std::string path = PathOf(directory, process);
  const size_t bytes = sizeof(RingHeader) + pes.size() * kPeBytes;
  const int file = CreateFile(path);
  if (file < 0) return CannotCreate(path, errno);
  // Allocates the space now, so that a full disk is an error here and not a SIGBUS later.
  int code = posix_fallocate(file, 0, static_cast<off_t>(bytes));
  void* mapping = MAP_FAILED;
  if (code == 0) {
    mapping = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapping == MAP_FAILED) code = errno;
  }
  if (mapping == MAP_FAILED) {
    unlink(path.c_str());
    close(file);
    return CannotCreate(path, code);
  }
  std::unique_ptr<FlightRecorder> recorder(new FlightRecorder(directory, std::move(processes), file, mapping, bytes));
  RingHeader* header = recorder->header_;
  header->pid = static_cast<uint32_t>(getpid());
  header->pid_start_time = shm::ProcessStartTime(getpid());
  header->pid_namespace = shm::PidNamespace();
  header->process = static_cast<uint32_t>(process);
  header->processes = static_cast<uint32_t>(recorder->processes_.size());
  header->n_pes = static_cast<uint32_t>(pes.size());
  for (size_t i = 0; i < pes.size(); ++i) {
    recorder->HeaderOf(i)->pe = static_cast<uint32_t>(pes[i]);
    recorder->HeaderOf(i)->entries = kEntries;
  }
  memcpy(header->magic, kMagic, sizeof(header->magic));
  return recorder;
}

FlightRecorder::FlightRecorder(std::string directory, std::vector<int> processes, int file, void* mapping, size_t bytes)
    : directory_(std::move(directory)),
      processes_(std::move(processes)),
      file_(file),
      header_(static_cast<RingHeader*>(mapping)),
      bytes_(bytes) {}

FlightRecorder::~FlightRecorder() {
  munmap(header_, bytes_);
  close(file_);
}

PeHeader* FlightRecorder::HeaderOf(size_t index) const {
  assert(index < header_->n_pes && sizeof(RingHeader) + (index + 1) * kPeBytes <= bytes_);
  return reinterpret_cast<PeHeader*>(reinterpret_cast<char*>(header_) + sizeof(RingHeader) + index * kPeBytes);
}

void FlightRecorder::MarkLoad() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (loader_ == std::thread::id()) loader_ = std::this_thread::get_id();
  if (loader_ != std::this_thread::get_id()) header_->several_threads_load.store(1, std::memory_order_release);
}

uint32_t FlightRecorder::AddSite(const Site& site) {
  std::lock_guard<std::mutex> lock(mutex_);
  const uint32_t number = sites_++;
  const std::string record = Encode(number, site);
  assert(record.size() % 8 == 0);
  const uint64_t before = header_->site_bytes.load(std::memory_order_relaxed);
  // A full disk loses names and does not fail the job: the next record overwrites what was written of this one.
  if (pwrite(file_, record.data(), record.size(), static_cast<off_t>(bytes_ + before)) ==
      static_cast<ssize_t>(record.size())) {
    header_->site_bytes.store(before + record.size(), std::memory_order_release);
  }
  return number;
}

Entry* FlightRecorder::Begin(int pe, uint32_t site, uint64_t execution, uint64_t bytes, uint64_t start_ns,
                             uint64_t* sequence, State state) {
  for (size_t i = 0; i < header_->n_pes; ++i) {
    PeHeader* header = HeaderOf(i);
    if (header->pe != static_cast<uint32_t>(pe)) continue;
    *sequence = header->next.fetch_add(1, std::memory_order_relaxed) + 1;
    assert(*sequence != 0 && header->entries == kEntries);
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
  assert(state != State::kEmpty);
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

void FlightRecorder::MarkAtEnd() {
  uint64_t never = 0;
  header_->at_end_ns.compare_exchange_strong(never, MonotonicNanoseconds());
}

void FlightRecorder::Close(int exit_code) {
  MarkAtEnd();
  header_->exit_status.store(1 + static_cast<uint32_t>(exit_code & 0xff), std::memory_order_release);
  uint32_t running = static_cast<uint32_t>(Outcome::kRunning);
  header_->outcome.compare_exchange_strong(running, static_cast<uint32_t>(Outcome::kExited));
  // One process at a time, so that exactly one finds itself to be the last.
  const int lock = open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock < 0 || flock(lock, LOCK_EX) != 0) {
    if (lock >= 0) close(lock);
    return;
  }
  bool all_exited = true;
  for (const int process : processes_) all_exited &= OutcomeAt(PathOf(directory_, process)) == Outcome::kExited;
  if (all_exited) {
    for (const int process : processes_) unlink(PathOf(directory_, process).c_str());
    rmdir(directory_.c_str());
    // The directory of all jobs is ours too, unless the user has named it. It stays if it holds other jobs.
    const std::string root = directory_.substr(0, directory_.rfind('/'));
    if (root.substr(root.rfind('/') + 1) == "xla-shmem-" + std::to_string(getuid())) rmdir(root.c_str());
  }
  close(lock);
}

}  // namespace xla_shmem::observe
