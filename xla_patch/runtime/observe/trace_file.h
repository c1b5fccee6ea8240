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

#include "xla_patch/runtime/observe/flight_recorder.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::observe {

class TraceFile {
 public:
  static Result<std::unique_ptr<TraceFile>> Open(const std::string& path, int process, const std::vector<int>& pes);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // Adds an execution of `site`, on the first track of its PE that is free from its start on, unless it names a track.
  void Add(const Site& site, const Finished& execution);
  void Flush();

 private:
  explicit TraceFile(int file) : file_(file) {}
  int FreeTrack(const Finished& execution);
  void FlushLocked();

  const int file_;
  std::mutex mutex_;
  std::string buffer_;                         // guarded by mutex_
  std::map<int, std::vector<uint64_t>> ends_;  // of the last execution on each track of a PE, ns; guarded by mutex_
};

}  // namespace xla_shmem::observe

#endif  // XLA_SHMEM_RUNTIME_OBSERVE_TRACE_FILE_H_
