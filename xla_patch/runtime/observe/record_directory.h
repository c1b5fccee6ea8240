// Where the flight recorder of a job without Python keeps its files. python/xla_shmem/runtime/flight_records.py does
// the same for the plugin, and reads both.
#ifndef XLA_SHMEM_RUNTIME_OBSERVE_RECORD_DIRECTORY_H_
#define XLA_SHMEM_RUNTIME_OBSERVE_RECORD_DIRECTORY_H_

#include <string>

#include "xla_patch/types/status.h"

namespace xla_shmem::observe {

// A name that no other job has.
std::string NewJobName();

// Creates the directory of a job for a value of XLA_SHMEM_RECORDS, readable by this user only, and returns it; "" if
// records are off. An error if it cannot be created, or if another user owns it.
Result<std::string> MakeRecordDirectory(const std::string& setting, const std::string& job);

}  // namespace xla_shmem::observe

#endif  // XLA_SHMEM_RUNTIME_OBSERVE_RECORD_DIRECTORY_H_
