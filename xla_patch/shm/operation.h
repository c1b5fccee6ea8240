// A transfer in flight, as the code that drives transfers sees it.
#ifndef XLA_SHMEM_SHM_OPERATION_H_
#define XLA_SHMEM_SHM_OPERATION_H_

#include <string>

namespace xla_shmem {

class Operation {
 public:
  virtual ~Operation() = default;
  // Advances without ever blocking; true when finished. Called by one thread at a time.
  virtual bool Poll() = 0;
  // Whether the last Poll got further: then the next is worth making soon. Who cannot tell says no.
  virtual bool moved() const { return false; }
  // From here on Poll may come late, after a sleep: whatever peers may need of this operation has to be published in
  // the next Poll at the latest.
  virtual void OnSubmit() {}
  // One sentence on what is waited for, counters seen and expected included: the text of a deadline error.
  virtual std::string Describe() const = 0;
  // True if this operation, looked at now, cannot finish unless `pe` does something more. Asked about PEs whose process
  // is gone, so a yes must be certain: a PE may exit as soon as its own part is done.
  virtual bool WaitsFor(int pe) const = 0;
  // The job failed: drops what has not run. Memory that a peer may still write to is not given back. Poll is not called
  // again.
  virtual void Abandon() = 0;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_SHM_OPERATION_H_
