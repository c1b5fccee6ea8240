// Reads the flight records of processes, whatever state they are in.
#ifndef XLA_SHMEM_RUNTIME_OBSERVE_RING_READER_H_
#define XLA_SHMEM_RUNTIME_OBSERVE_RING_READER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "xla_patch/runtime/observe/flight_recorder.h"

namespace xla_shmem::observe {

// A collective that a process has loaded.
struct LoadedSite {
  Site site;
  uint32_t number = 0;  // to which entries refer
};

// An execution that is still in the ring.
struct Begun {
  int pe;
  const Site* site;
  uint64_t execution;
  uint64_t bytes;
  uint64_t sequence;
  State state;

  // It has not ended.
  bool is_open() const { return state == State::kStarted || state == State::kWaiting; }
};

// What the file of a process tells. `begun` and `unfinished` point to `sites`.
struct RecordOfProcess {
  RecordOfProcess() = default;
  RecordOfProcess(RecordOfProcess&&) = default;
  RecordOfProcess& operator=(RecordOfProcess&&) = default;

  int process = -1;
  bool several_threads_load = false;
  std::vector<int> pes;
  std::vector<LoadedSite> sites;  // in the order in which they were loaded
  std::vector<Begun> begun;
  // For each PE the collective that it has begun and not ended, or, if there is none, the first that a failure has
  // ended.
  std::vector<Begun> unfinished;

  bool HasLoaded(uint64_t operation) const;
  bool HasBegun(int pe, uint64_t operation, uint64_t execution) const;
};

// Without PEs if the process has no file.
RecordOfProcess ReadRecordOfProcess(const std::string& directory, int process);

bool Has(const std::vector<int>& pes, int pe);

}  // namespace xla_shmem::observe

#endif  // XLA_SHMEM_RUNTIME_OBSERVE_RING_READER_H_
