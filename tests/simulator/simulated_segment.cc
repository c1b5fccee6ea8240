// Segments in simulated memory, buffers that other processes map, and processes of the simulated system, in place of
// shm/segment.cc, shm/shared_buffers.cc and shm/process_identity.cc, which are thin over the real system's calls.
#include <map>
#include <string>
#include <utility>

#include "tests/simulator/scheduler.h"
#include "tests/simulator/shared_memory.h"
#include "tests/simulator/system_calls.h"
#include "xla_patch/shm/process_identity.h"
#include "xla_patch/shm/segment.h"
#include "xla_patch/shm/shared_buffers.h"

namespace xla_shmem::shm {
namespace {

using simulator::OwnCode;
using simulator::Scheduler;
using simulator::SharedMemory;

std::map<int, std::pair<char*, size_t>>& Segments() {  // by process
  static auto* const segments = new std::map<int, std::pair<char*, size_t>>;
  return *segments;
}

}  // namespace

uint64_t PidNamespace() { return 1; }

uint64_t ProcessStartTime(pid_t pid) { return Scheduler::Get().IsDead(pid - 1000) ? 0 : 1; }

Segment::Segment(std::string name, void* address, size_t bytes, bool owner)
    : name_(std::move(name)), address_(address), bytes_(bytes), owner_(owner) {}

Segment::~Segment() = default;

Result<std::unique_ptr<Segment>> Segment::Create(const JobKey& job, int process, size_t bytes) {
  char* memory;
  {
    const OwnCode own_code;
    memory = SharedMemory::Get().TakeSegment(process, bytes);
    Segments()[process] = {memory, bytes};
  }
  std::unique_ptr<Segment> segment(new Segment("segment", memory, bytes, /*owner=*/true));
  SegmentHeader& header = segment->header();
  header.pid_start_time = 1;
  header.pid_namespace = PidNamespace();
  header.pid.store(simulator::PidOf(*Scheduler::current()->process), std::memory_order_release);
  header.version = kSegmentVersion;
  header.process = process;
  header.job_key[0] = job.words[0];
  header.job_key[1] = job.words[1];
  header.bytes = bytes;
  segment->probe_ = job;
  header.probe_address = reinterpret_cast<uint64_t>(segment->probe_.words);
  if (process < simulator::System().with_shared_buffers) {
    const OwnCode own_code;
    const SharedMemory::Pages& pages = SharedMemory::Get().pages();
    header.shared_buffers.address = reinterpret_cast<uint64_t>(pages.own);
    header.shared_buffers.bytes = pages.bytes;
  }
  header.magic.store(kSegmentMagic, std::memory_order_release);
  return segment;
}

// The system may not let a process open another's file.
std::unique_ptr<SharedBuffers> SharedBuffers::Map(const SharedBuffersRecord& record, int64_t /*pid*/) {
  if (record.bytes == 0 || Scheduler::Get().Chance(simulator::System().refused_reads)) return nullptr;
  return std::unique_ptr<SharedBuffers>(
      new SharedBuffers(record.address, record.bytes, SharedMemory::Get().pages().others));
}

SharedBuffers::~SharedBuffers() = default;

Result<std::unique_ptr<Segment>> Segment::Attach(const JobKey& /*job*/, int process) {
  const auto [memory, bytes] = Segments().at(process);
  std::unique_ptr<Segment> segment(new Segment("segment", memory, bytes, /*owner=*/false));
  if (segment->header().magic.load(std::memory_order_acquire) != kSegmentMagic) {
    return Status::Error("the segment of process " + std::to_string(process) + " is not complete");
  }
  return segment;
}

void Segment::NoteAttached(uint32_t /*processes*/) { header().attached.fetch_add(1, std::memory_order_acq_rel); }

void Segment::Unlink() {}

ProcessState StateOf(pid_t pid, uint64_t /*start_time*/) {
  if (ProcessStartTime(pid) == 0) return ProcessState::kGone;
  if (!Scheduler::Get().IsStopped(pid - 1000)) return ProcessState::kRuns;
  return Scheduler::Get().IsTraced(pid - 1000) ? ProcessState::kTraced : ProcessState::kStopped;
}

ProcessState Segment::OwnerState() const {
  return StateOf(static_cast<pid_t>(header().pid.load(std::memory_order_acquire)), 1);
}

}  // namespace xla_shmem::shm
