#ifndef XLA_SHMEM_TESTS_SIMULATOR_MEETING_H_
#define XLA_SHMEM_TESTS_SIMULATOR_MEETING_H_

#include <functional>
#include <utility>

#include "tests/simulator/memory_model.h"
#include "tests/simulator/scheduler.h"
#include "tests/simulator/shared_memory.h"
#include "tests/simulator/vector_clock.h"

namespace xla_shmem::simulator {

// All processes meet here. In a real job JAX's store and barrier do that.
class Meeting {
 public:
  // `complete` is called when all are there.
  Meeting(int processes, std::function<void()> complete) : missing_(processes), complete_(std::move(complete)) {}
  void Meet() {
    const OwnCode own_code;
    MemoryModel::Release(&clock_);
    if (--missing_ == 0) {
      complete_();
      Scheduler::Get().Wake(this);
    } else {
      Scheduler::Get().Block(this);
    }
    MemoryModel::Acquire(clock_);
  }

 private:
  int missing_;
  const std::function<void()> complete_;
  VectorClock clock_;
};

}  // namespace xla_shmem::simulator

#endif  // XLA_SHMEM_TESTS_SIMULATOR_MEETING_H_
