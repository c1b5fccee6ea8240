#include "xla_patch/shm/job_key.h"

#include <stdio.h>
#include <stdlib.h>

namespace xla_shmem::shm {

Result<JobKey> JobKey::Parse(const std::string& hex) {
  if (hex.size() != 32 || hex.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return Status::Error("the job key \"" + hex + "\" is not 32 lower-case hex digits");
  }
  return JobKey{{strtoull(hex.substr(0, 16).c_str(), nullptr, 16), strtoull(hex.substr(16).c_str(), nullptr, 16)}};
}

std::string JobKey::Hex() const {
  char text[33];
  snprintf(text, sizeof(text), "%016lx%016lx", static_cast<unsigned long>(words[0]),
           static_cast<unsigned long>(words[1]));
  return text;
}

}  // namespace xla_shmem::shm
