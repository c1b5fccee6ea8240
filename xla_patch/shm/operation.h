// The interface between a transfer in flight and the code that drives it.
#ifndef XLA_SHMEM_SHM_OPERATION_H_
#define XLA_SHMEM_SHM_OPERATION_H_

#include <string>

namespace xla_shmem {

class Operation {
 public:
  virtual ~Operation() = default;
  // Advances the transfer without blocking. Returns true when it is finished. Called by one thread at a time.
  virtual bool Poll() = 0;
  // Whether the last Poll advanced the transfer, so that the next Poll should come soon. Returns false if the answer is
  // not certain.
  virtual bool made_progress() const { return false; }
  // From here on Poll may come late, after a sleep. The next Poll must publish everything that peers may need.
  virtual void OnSubmit() {}
  // One sentence that says what the operation waits for, with the counters: the text of a deadline error.
  virtual std::string Describe() const = 0;
  // True if this operation cannot finish unless `pe` does something more. Called for PEs whose process has exited, so
  // true must be certain: a PE may exit as soon as its own part is done.
  virtual bool WaitsFor(int pe) const = 0;
  // The job has failed: stops the transfer. Does not give back memory that a peer may still write to. Poll is not
  // called again.
  virtual void Abandon() = 0;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_SHM_OPERATION_H_
