// Vector clocks: what each thread has seen of every other (Mattern 1988; FastTrack, Flanagan and Freund 2009).
#ifndef XLA_SHMEM_TESTS_SIMULATOR_VECTOR_CLOCK_H_
#define XLA_SHMEM_TESTS_SIMULATOR_VECTOR_CLOCK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace xla_shmem::simulator {

class VectorClock {
 public:
  uint32_t of(int thread) const {
    return static_cast<size_t>(thread) < clocks_.size() ? clocks_[static_cast<size_t>(thread)] : 0;
  }
  void Advance(int thread) {
    if (static_cast<size_t>(thread) >= clocks_.size()) clocks_.resize(static_cast<size_t>(thread) + 1);
    ++clocks_[static_cast<size_t>(thread)];
  }
  // The later of both, thread by thread.
  void Join(const VectorClock& other) {
    if (other.clocks_.size() > clocks_.size()) clocks_.resize(other.clocks_.size());
    for (size_t i = 0; i < other.clocks_.size(); ++i) clocks_[i] = std::max(clocks_[i], other.clocks_[i]);
  }
  // Whether the event at `clock` of `thread` happened before what this clock stands for.
  bool Includes(int thread, uint32_t clock) const { return of(thread) >= clock; }

 private:
  std::vector<uint32_t> clocks_;
};

}  // namespace xla_shmem::simulator

#endif  // XLA_SHMEM_TESTS_SIMULATOR_VECTOR_CLOCK_H_
