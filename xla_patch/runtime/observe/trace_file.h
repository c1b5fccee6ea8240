// The file that XLA_SHMEM_TRACE=file writes: every collective as an event of Chrome's trace format (the JSON array
// form, whose closing bracket is optional), for Perfetto or chrome://tracing. Each PE is a process there. Its
// collectives share one track as long as they do not overlap; those that overlap get further tracks.
//
// All processes of a host append to one file, which the first of them creates. Process 0 has removed the file of an
// earlier job before. A symbolic link is not followed, because others may write to the directory.
#ifndef XLA_SHMEM_RUNTIME_OBSERVE_TRACE_FILE_H_
#define XLA_SHMEM_RUNTIME_OBSERVE_TRACE_FILE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "xla_patch/runtime/observe/totals.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::observe {

class Trace {
 public:
  static Result<std::unique_ptr<Trace>> Open(const std::string& path, int process, const std::vector<int>& pes);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // Returns a track of `pe` for a collective that begins now. End frees it. On GPUs the caller chooses the tracks.
  int Begin(int pe);
  void End(int pe, int track, const std::string& op, const std::string& name, uint64_t execution, uint64_t start_ns,
           const Measurement& measurement);
  void Flush();

 private:
  explicit Trace(int file) : file_(file) {}
  void FlushLocked();

  const int file_;
  std::mutex mutex_;
  std::string buffer_;                      // guarded by mutex_
  std::map<int, std::vector<bool>> taken_;  // by PE and track; guarded by mutex_
};

}  // namespace xla_shmem::observe

#endif  // XLA_SHMEM_RUNTIME_OBSERVE_TRACE_FILE_H_
