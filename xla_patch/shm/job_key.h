#ifndef XLA_SHMEM_SHM_JOB_KEY_H_
#define XLA_SHMEM_SHM_JOB_KEY_H_

#include <cstdint>
#include <string>

#include "xla_patch/types/status.h"

namespace xla_shmem::shm {

// 128-bit random key of a job, or of one process's segment in it.
struct JobKey {
  uint64_t words[2];
  // `hex`: exactly 32 lower-case hex digits.
  static Result<JobKey> Parse(const std::string& hex);
  std::string Hex() const;
};

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_JOB_KEY_H_
