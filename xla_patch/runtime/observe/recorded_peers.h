// What the flight records tell of the other processes of the job on this host: which of them can never come, and what
// the others do. Transfers between GPUs know nothing of processes.
#ifndef XLA_SHMEM_RUNTIME_OBSERVE_RECORDED_PEERS_H_
#define XLA_SHMEM_RUNTIME_OBSERVE_RECORDED_PEERS_H_

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace xla_shmem::observe {

class RecordedPeers {
 public:
  // A process that has been stopped by a signal for so long is lost.
  static constexpr std::chrono::seconds kStoppedForGood{60};

  // `processes`: of the job on this host. "" for the directory: there are no records, and nothing is known.
  RecordedPeers(std::string directory, const std::vector<int>& processes, int own_process,
                std::chrono::nanoseconds stopped_for_good = kStoppedForGood);

  struct Facts {
    std::string lost;  // "process 1 (pid 7) has exited with code 3"; "" if none is lost
    std::string late;  // "; process 1 (pid 7) is running", and so on for all others
  };
  // Called every second or so. A process that has exited with code 0 is not lost: it may have done its part.
  Facts Look();

 private:
  const std::string directory_;
  std::vector<int> peers_;
  const std::chrono::nanoseconds stopped_for_good_;
  std::map<int, std::chrono::steady_clock::time_point> stopped_since_;
};

}  // namespace xla_shmem::observe

#endif  // XLA_SHMEM_RUNTIME_OBSERVE_RECORDED_PEERS_H_
