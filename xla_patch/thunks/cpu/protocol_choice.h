// Whether the large messages of a collective travel by cross-memory reads or through slots: whichever has been faster
// in this job, for this op and size.
//
// Which is faster depends on the machine, on its caches and on what else runs. One measurement at the start of a job
// does not tell: it made jobs of one program differ by up to 1.4 for their whole life. So both ways are tried on the
// messages of the program itself, one after the other, and each pair of trials gives a ratio of times. The median of
// the last ratios decides, so neither a single disturbance nor a drift of the machine does.
//
// All processes of a host share a table of verdicts, in the heap of their first PE, and trials follow from the key of
// an execution alone. So the members of a collective nearly always go the same way, which is often faster than if each
// end chose for itself. The process that comes to a verdict first owns it. Nothing depends on all this: a receiver
// supports every way. No process waits for another one here, so each may end at any time.
#ifndef XLA_SHMEM_THUNKS_CPU_PROTOCOL_CHOICE_H_
#define XLA_SHMEM_THUNKS_CPU_PROTOCOL_CHOICE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <mutex>

#include "xla_patch/thunks/cpu/message_key.h"
#include "xla_patch/types/collective_op.h"

namespace xla_shmem {

class ProtocolChoice {
 public:
  enum class Way : uint8_t { kReads, kSlots };

  struct Decision {
    Way way = Way::kReads;
    bool is_trial = false;     // senders say when they begin
    bool is_measured = false;  // receivers call Record
  };

  // Bytes of the table, which begins as zeros.
  static constexpr size_t Bytes() { return sizeof(std::atomic<uint32_t>) * kClasses; }

  // `table` null: nothing is tried, all goes by reads as far as they are permitted. `process`: of the job.
  ProtocolChoice(void* table, int process)
      : verdicts_(static_cast<std::atomic<uint32_t>*>(table)), owner_(static_cast<uint32_t>(process) + 1) {}

  // How this execution sends. `bytes`: of its largest message.
  Decision Decide(CollectiveOp op, size_t bytes, const MessageKey& key) const;

  // All that came in a measured execution came this way, so long after both ends had reached it. Thread-safe.
  void Record(CollectiveOp op, size_t bytes, Way way, int64_t nanoseconds);

 private:
  static constexpr size_t kWindow = 27;  // ratios that decide; older ones are forgotten
  static constexpr size_t kSizes = 16;   // powers of two from 16 KiB on
  static constexpr size_t kClasses = std::size(kCollectiveOps) * kSizes;

  // What this process has measured.
  struct Trials {
    std::array<int64_t, 2> unpaired{};    // by way: nanoseconds of a trial without its pair; 0: none
    std::array<float, kWindow> ratios{};  // logarithms of the time by reads over the time through slots
    size_t count = 0;                     // of ratios so far
  };
  static size_t Index(CollectiveOp op, size_t bytes);
  // The verdict that follows from the ratios and the one before; 0: trials go on.
  static uint32_t Judge(const Trials& trials, uint32_t before);

  std::atomic<uint32_t>* const verdicts_;  // by class: bits of protocol_choice.cc, and the owner
  const uint32_t owner_;
  std::mutex mutex_;
  std::array<Trials, kClasses> trials_;  // by class; guarded by mutex_
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_PROTOCOL_CHOICE_H_
