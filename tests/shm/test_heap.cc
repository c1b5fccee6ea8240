#include "tests/shm/test_heap.h"

#include <dirent.h>

#include <random>
#include <utility>

#include "tests/shm/pe_threads.h"
#include "tests/types/value_of.h"
#include "xla_patch/shm/process_identity.h"

namespace xla_shmem::testing {

shm::JobKey RandomJobKey() {
  std::random_device device;
  auto word = [&] { return (static_cast<uint64_t>(device()) << 32) | device(); };
  return {{word(), word()}};
}

std::unique_ptr<shm::Heap> HeapOfOneProcess(int n_pes, size_t bytes_per_pe) {
  std::vector<std::unique_ptr<shm::Segment>> segments;
  segments.push_back(ValueOf(shm::Segment::Create(RandomJobKey(), 0, shm::kPageBytes + n_pes * bytes_per_pe)));
  segments[0]->NoteAttached(1);
  return ValueOf(shm::Heap::Create(std::move(segments), std::vector<int>(n_pes, 0), /*own_process=*/0));
}

std::unique_ptr<shm::Heap> HeapOfProcesses(ProcessGroup& group, const shm::JobKey& job, int process, int processes,
                                           size_t bytes_per_pe) {
  std::vector<std::unique_ptr<shm::Segment>> segments(processes);
  segments[process] = ValueOf(shm::Segment::Create(job, process, shm::kPageBytes + bytes_per_pe));
  shm::PermitReaders(shm::Readers::kSiblings);
  group.Meet();
  std::vector<int> process_of_pe;
  for (int other = 0; other < processes; ++other) {
    if (other != process) segments[other] = ValueOf(shm::Segment::Attach(job, other));
    segments[other]->NoteAttached(processes);
    process_of_pe.push_back(other);
  }
  group.Meet();
  return ValueOf(shm::Heap::Create(std::move(segments), process_of_pe, process));
}

void RunPes(int n_pes, const std::function<void(int pe)>& body) { PeThreads(n_pes).Run(body); }

std::vector<std::string> SegmentsOf(const shm::JobKey& job) {
  std::vector<std::string> names;
  DIR* directory = opendir("/dev/shm");
  while (const dirent* entry = readdir(directory)) {
    const std::string name = entry->d_name;
    if (name.find(job.Hex()) != std::string::npos) names.push_back(name);
  }
  closedir(directory);
  return names;
}

}  // namespace xla_shmem::testing
