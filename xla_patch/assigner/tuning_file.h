#ifndef XLA_SHMEM_ASSIGNER_TUNING_FILE_H_
#define XLA_SHMEM_ASSIGNER_TUNING_FILE_H_

#include <string>
#include <string_view>

#include "xla_patch/assigner/tuning.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

// A tuning table as its file holds it (python/xla_shmem/options/tuning_table.py writes it).
struct TuningFile {
  std::string platform;          // "cpu" or "gpu": where the times were measured
  std::string_view fingerprint;  // JSON object: facts that must be the same wherever the times are used
  TuningTable table;
};

// Reads the text of a file; the result points into it. The error follows the file's name and a colon, and has the way
// out.
Result<TuningFile> ReadTuningFile(std::string_view text);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_ASSIGNER_TUNING_FILE_H_
