// The interface between a transfer in flight and the code that drives it.
#ifndef XLA_SHMEM_SHM_OPERATION_H_
#define XLA_SHMEM_SHM_OPERATION_H_

#include <set>
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
  // How many times as long as usual the thread that starts the operation polls without progress. More than 1 pays if
  // the operation takes longer than a sleep and a wake-up.
  virtual int Patience() const { return 1; }
  // From here on Poll may come late, after a sleep. The next Poll must publish everything that peers may need.
  virtual void OnSubmit() {}
  // One sentence that says what the operation is, and how far `pes` have come with it, if it waits for them.
  virtual std::string Describe(const std::set<int>& pes) const = 0;
  // The PEs that have to do something more before this operation can finish. Also called when the process of a PE has
  // exited, so it must be certain: a PE may exit as soon as its own part is done.
  virtual std::set<int> WaitsFor() const = 0;
  // Another transport carries it. It is only told how long it takes: no process fails because of it, and no deadline
  // holds for it.
  virtual bool is_of_default_backend() const { return false; }
  // The job has failed: stops the transfer. Does not give back memory that a peer may still write to. Poll is not
  // called again.
  virtual void Abandon() = 0;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_SHM_OPERATION_H_
