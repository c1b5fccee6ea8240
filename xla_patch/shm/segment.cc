#include "xla_patch/shm/segment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>
#include <vector>

namespace xla_shmem::shm {
namespace {

constexpr char kNamePrefix[] = "xla_shmem.";

std::string Errno(int code) { return std::string(strerror(code)) + " (errno " + std::to_string(code) + ")"; }

std::string UserPrefix() { return kNamePrefix + std::to_string(geteuid()) + "."; }

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

bool OwnerRuns(const SegmentHeader& header) {
  const auto pid = static_cast<pid_t>(header.pid.load(std::memory_order_acquire));
  if (pid == 0 || header.pid_namespace != PidNamespace()) return true;
  return ProcessStartTime(pid) == header.pid_start_time;
}

// Opens an existing segment. O_NONBLOCK: somebody may have put a FIFO in our way, on which a plain open would hang.
int OpenExisting(const std::string& name, int access) {
  return shm_open(name.c_str(), access | O_CLOEXEC | O_NONBLOCK, 0);
}

// Backs the first `bytes` with memory now; ftruncate alone would only fail later, with SIGBUS. tmpfs gives up on any
// signal.
int Back(int file, size_t bytes) {
  int status;
  do {
    status = posix_fallocate(file, 0, static_cast<off_t>(bytes));
  } while (status == EINTR);
  return status;
}

}  // namespace

uint64_t PidNamespace() {
  struct stat status;
  return stat("/proc/self/ns/pid", &status) == 0 ? static_cast<uint64_t>(status.st_ino) : 0;
}

void PermitReaders(bool permitted) {
  // Fails where there is no Yama, and is not needed there.
  prctl(PR_SET_PTRACER, permitted ? PR_SET_PTRACER_ANY : 0, 0, 0, 0);
}

bool JobKey::Parse(const std::string& hex, JobKey* key) {
  if (hex.size() != 32 || hex.find_first_not_of("0123456789abcdef") != std::string::npos) return false;
  key->words[0] = strtoull(hex.substr(0, 16).c_str(), nullptr, 16);
  key->words[1] = strtoull(hex.substr(16).c_str(), nullptr, 16);
  return true;
}

std::string JobKey::Hex() const {
  char text[33];
  snprintf(text, sizeof(text), "%016lx%016lx", static_cast<unsigned long>(words[0]),
           static_cast<unsigned long>(words[1]));
  return text;
}

std::string SegmentName(const JobKey& job, int process) {
  return "/" + UserPrefix() + job.Hex() + "." + std::to_string(process);
}

uint64_t ProcessStartTime(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return 0;
  char text[1024];
  const ssize_t size = read(file.get(), text, sizeof(text) - 1);
  if (size <= 0) return 0;
  text[size] = '\0';
  // The command name (field 2) may hold blanks and brackets: count fields from its closing bracket.
  const char* cursor = strrchr(text, ')');
  if (cursor == nullptr || cursor[1] == '\0') return 0;
  if (cursor[2] == 'Z' || cursor[2] == 'X') return 0;
  constexpr int kStartTimeField = 22;
  cursor += 2;  // at field 3
  for (int field = 3; field < kStartTimeField; ++field) {
    cursor = strchr(cursor + 1, ' ');
    if (cursor == nullptr) return 0;
  }
  return strtoull(cursor, nullptr, 10);
}

Segment::Segment(std::string name, void* address, size_t bytes, bool owner)
    : name_(std::move(name)), address_(address), bytes_(bytes), owner_(owner) {}

Segment::~Segment() {
  // A forked child destroys its copy of this object too: only the process that made the segment may take its name away.
  if (owner_ && header().pid.load(std::memory_order_relaxed) == getpid()) Unlink();
  munmap(address_, bytes_);
}

void Segment::Unlink() { shm_unlink(name_.c_str()); }

std::unique_ptr<Segment> Segment::Create(const JobKey& job, int process, size_t bytes, std::string* error) {
  const std::string name = SegmentName(job, process);
  FileDescriptor file(shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.get() < 0) {
    *error =
        "cannot create shared memory " + name + ": " + Errno(errno) +
        (errno == EEXIST ? "; another job uses the same XLA_SHMEM_JOB key: unset it or give each job its own" : "");
    return nullptr;
  }
  auto not_backed = [&](int status) {
    *error = "cannot back shared memory " + name + " with " + std::to_string(bytes) + " bytes: " + Errno(status) +
             "; /dev/shm is full or too small: free space there, mount it larger, or lower XLA_SHMEM_HEAP_SIZE";
    shm_unlink(name.c_str());
    return nullptr;
  };
  if (const int status = Back(file.get(), kPageBytes); status != 0) return not_backed(status);
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) {
    *error = "cannot map shared memory " + name + " of " + std::to_string(bytes) + " bytes: " + Errno(errno);
    shm_unlink(name.c_str());
    return nullptr;
  }
  std::unique_ptr<Segment> segment(new Segment(name, address, bytes, /*owner=*/true));
  SegmentHeader& header = segment->header();
  // Backing gigabytes takes seconds, and we may be killed meanwhile: say first whose segment it is, so that SweepStale
  // knows.
  header.pid_start_time = ProcessStartTime(getpid());
  header.pid_namespace = PidNamespace();
  header.pid.store(getpid(), std::memory_order_release);
  if (const int status = Back(file.get(), bytes); status != 0) return not_backed(status);
  header.version = kSegmentVersion;
  header.process = process;
  header.job_key[0] = job.words[0];
  header.job_key[1] = job.words[1];
  header.bytes = bytes;
  segment->probe_ = job;
  header.probe_address = reinterpret_cast<uint64_t>(segment->probe_.words);
  PermitReaders(true);
  header.magic.store(kSegmentMagic, std::memory_order_release);
  return segment;
}

std::unique_ptr<Segment> Segment::Attach(const JobKey& job, int process, std::string* error) {
  const std::string name = SegmentName(job, process);
  auto refuse = [&](const std::string& why) {
    *error = "cannot attach to shared memory " + name + " of process " + std::to_string(process) + ": " + why;
    return nullptr;
  };
  FileDescriptor file(OpenExisting(name, O_RDWR));  // shm_open never follows a symlink (O_NOFOLLOW)
  if (file.get() < 0) return refuse(Errno(errno));
  struct stat status;
  if (fstat(file.get(), &status) != 0) return refuse(Errno(errno));
  if (status.st_uid != geteuid()) {
    return refuse("it belongs to user " + std::to_string(status.st_uid) + ", not to us (" + std::to_string(geteuid()) +
                  ")");
  }
  if ((status.st_mode & 0777) != 0600) {
    return refuse("its mode is not 0600, so others could write into it");
  }
  const size_t bytes = static_cast<size_t>(status.st_size);
  if (!S_ISREG(status.st_mode)) return refuse("it is not a shared-memory object");
  if (bytes <= kPageBytes) return refuse("it is only " + std::to_string(bytes) + " bytes long");
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) return refuse(Errno(errno));
  std::unique_ptr<Segment> segment(new Segment(name, address, bytes, /*owner=*/false));
  const SegmentHeader& header = segment->header();
  if (header.magic.load(std::memory_order_acquire) != kSegmentMagic) return refuse("it is not an xla-shmem segment");
  if (header.version != kSegmentVersion) {
    return refuse("its layout version is " + std::to_string(header.version) + ", ours is " +
                  std::to_string(kSegmentVersion) + "; all processes need the same xla-shmem");
  }
  if (header.job_key[0] != job.words[0] || header.job_key[1] != job.words[1] || header.process != process ||
      header.bytes != bytes) {
    return refuse("its header belongs to another job, process or size");
  }
  return segment;
}

void Segment::NoteAttached(uint32_t processes) {
  if (header().attached.fetch_add(1, std::memory_order_acq_rel) + 1 == processes) Unlink();
}

bool Segment::OwnerAlive() const { return OwnerRuns(header()); }

int SweepStale() {
  DIR* directory = opendir("/dev/shm");
  if (directory == nullptr) return 0;
  const std::string prefix = UserPrefix();
  std::vector<std::string> stale;
  while (const dirent* entry = readdir(directory)) {
    const std::string name = entry->d_name;
    if (name.compare(0, prefix.size(), prefix) != 0) continue;
    FileDescriptor file(OpenExisting("/" + name, O_RDONLY));
    struct stat status;
    if (file.get() < 0 || fstat(file.get(), &status) != 0 || status.st_uid != geteuid()) continue;
    if (!S_ISREG(status.st_mode) || static_cast<size_t>(status.st_size) < kPageBytes) continue;
    void* address = mmap(nullptr, kPageBytes, PROT_READ, MAP_SHARED, file.get(), 0);
    if (address == MAP_FAILED) continue;
    const auto* header = static_cast<const SegmentHeader*>(address);
    const uint64_t magic = header->magic.load(std::memory_order_acquire);
    if ((magic == kSegmentMagic || magic == 0) && !OwnerRuns(*header)) stale.push_back("/" + name);
    munmap(address, kPageBytes);
  }
  closedir(directory);
  int removed = 0;
  for (const std::string& name : stale) removed += shm_unlink(name.c_str()) == 0;
  return removed;
}

}  // namespace xla_shmem::shm
