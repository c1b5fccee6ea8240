// By which stores this process fills the slots of a peer: whichever have been faster lately.
//
// A plain store to a cache line that another core has read waits until that core has dropped it. Between cores that
// share a cache this is fast. Between two parts of an AMD EPYC plain stores took ten times as long as streaming stores,
// which wait for nothing (docs/performance.md). Where the system runs the two processes may change while a job runs, so
// the other kind is tried now and then.
#ifndef XLA_SHMEM_THUNKS_CPU_SLOT_STORES_H_
#define XLA_SHMEM_THUNKS_CPU_SLOT_STORES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace xla_shmem {

// Of one receiver. Thread-safe.
class SlotStores {
 public:
  enum class Kind : uint8_t { kPlain, kStreaming };

  // How to write the next chunk.
  struct Choice {
    Kind kind;
    bool is_measured;  // then the caller calls Record
  };
  Choice Next();
  void Record(Kind kind, size_t bytes, int64_t nanoseconds);

 private:
  std::atomic<uint32_t> chunks_{0};
  std::atomic<float> plain_{0}, streaming_{0};  // nanoseconds a byte, lately; 0: not known yet
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_SLOT_STORES_H_
