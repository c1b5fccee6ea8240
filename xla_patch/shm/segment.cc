#include "xla_patch/shm/segment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "xla_patch/shm/process_identity.h"

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

ProcessState StateOfOwner(const SegmentHeader& header) {
  const auto pid = static_cast<pid_t>(header.pid.load(std::memory_order_acquire));
  if (pid == 0 || header.pid_namespace != PidNamespace()) return ProcessState::kRuns;
  return StateOf(pid, header.pid_start_time);
}

// Opens an existing segment. O_NONBLOCK, because a plain open would hang on a FIFO of that name.
int OpenExisting(const std::string& name, int access) {
  return shm_open(name.c_str(), access | O_CLOEXEC | O_NONBLOCK, 0);
}

// Allocates memory for the first `bytes` now, because after a mere ftruncate a full /dev/shm would cause a SIGBUS
// later. A signal interrupts tmpfs, which then takes back all of the call, so each call is for a piece that is done
// between two ticks of a profiler's timer. Returns 0 or an errno.
int AllocateMemory(int file, size_t bytes) {
  constexpr size_t kPiece = 4 << 20;
  // Before anything is taken: a tmpfs may be as large as the memory of the machine.
  struct statvfs space;
  if (fstatvfs(file, &space) != 0) return errno;
  if (bytes / space.f_frsize > space.f_bavail) return ENOSPC;
  for (size_t done = 0; done < bytes;) {
    const size_t piece = std::min(kPiece, bytes - done);
    const int status = posix_fallocate(file, static_cast<off_t>(done), static_cast<off_t>(piece));
    if (status != 0 && status != EINTR) return status;
    if (status == 0) done += piece;
  }
  return 0;
}

}  // namespace

std::string SegmentName(const JobKey& job, int process) {
  return "/" + UserPrefix() + job.Hex() + "." + std::to_string(process);
}

Segment::Segment(std::string name, void* address, size_t bytes, bool owner)
    : name_(std::move(name)), address_(address), bytes_(bytes), owner_(owner) {}

Segment::~Segment() {
  // A forked child also destroys its copy of this object, but only the creator of the segment may remove its name.
  if (owner_ && header().pid.load(std::memory_order_relaxed) == getpid()) Unlink();
  munmap(address_, bytes_);
}

void UnlinkSegment(const JobKey& job, int process) { shm_unlink(SegmentName(job, process).c_str()); }

void Segment::Unlink() { shm_unlink(name_.c_str()); }

Result<std::unique_ptr<Segment>> Segment::Create(const JobKey& job, int process, size_t bytes) {
  const std::string name = SegmentName(job, process);
  FileDescriptor file(shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.get() < 0) {
    return Status::Error("cannot create shared memory " + name + ": " + Errno(errno) +
                         (errno == EEXIST ? "; start the job again: it takes other names" : ""));
  }
  auto no_memory = [&](int status) {
    shm_unlink(name.c_str());
    return Status::Error("cannot allocate " + std::to_string(bytes) + " bytes for shared memory " + name + ": " +
                         Errno(status) +
                         "; /dev/shm is full or too small: free space there, mount it larger, or lower "
                         "XLA_SHMEM_HEAP_SIZE");
  };
  if (const int status = AllocateMemory(file.get(), kPageBytes); status != 0) return no_memory(status);
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) {
    const std::string reason = Errno(errno);
    shm_unlink(name.c_str());
    return Status::Error("cannot map shared memory " + name + " of " + std::to_string(bytes) + " bytes: " + reason);
  }
  std::unique_ptr<Segment> segment(new Segment(name, address, bytes, /*owner=*/true));
  SegmentHeader& header = segment->header();
  // The owner comes first, so that SweepStale knows it: allocating gigabytes takes seconds, and the process may be
  // killed meanwhile.
  header.pid_start_time = ProcessStartTime(getpid());
  header.pid_namespace = PidNamespace();
  header.pid.store(getpid(), std::memory_order_release);
  if (const int status = AllocateMemory(file.get(), bytes); status != 0) return no_memory(status);
  header.version = kSegmentVersion;
  header.process = process;
  header.job_key[0] = job.words[0];
  header.job_key[1] = job.words[1];
  header.bytes = bytes;
  segment->probe_ = job;
  header.probe_address = reinterpret_cast<uint64_t>(segment->probe_.words);
  header.shared_buffers = OwnSharedBuffers();
  header.magic.store(kSegmentMagic, std::memory_order_release);
  return segment;
}

Result<std::unique_ptr<Segment>> Segment::Attach(const JobKey& job, int process) {
  const std::string name = SegmentName(job, process);
  auto refuse = [&](const std::string& why) {
    return Status::Error("cannot attach to shared memory " + name + " of process " + std::to_string(process) + ": " +
                         why);
  };
  FileDescriptor file(OpenExisting(name, O_RDWR));  // shm_open never follows a symlink (O_NOFOLLOW)
  if (file.get() < 0) return refuse(Errno(errno));
  struct stat status;
  if (fstat(file.get(), &status) != 0) return refuse(Errno(errno));
  if (status.st_uid != geteuid()) {
    return refuse("it belongs to user " + std::to_string(status.st_uid) + ", and this process runs as user " +
                  std::to_string(geteuid()));
  }
  if ((status.st_mode & 0777) != 0600) return refuse("its mode is not 0600, so others could write into it");
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

ProcessState Segment::OwnerState() const { return StateOfOwner(header()); }

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
    if ((magic == kSegmentMagic || magic == 0) && StateOfOwner(*header) == ProcessState::kGone) {
      stale.push_back("/" + name);
    }
    munmap(address, kPageBytes);
  }
  closedir(directory);
  int removed = 0;
  for (const std::string& name : stale) removed += shm_unlink(name.c_str()) == 0;
  return removed;
}

}  // namespace xla_shmem::shm
