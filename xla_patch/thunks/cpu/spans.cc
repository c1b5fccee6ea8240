#include "xla_patch/thunks/cpu/spans.h"

#include "xla_patch/shm/copy.h"
#include "xla_patch/shm/copy_timer.h"

namespace xla_shmem {

void Spans::CopyTo(char* memory, size_t begin, size_t end) const {
  const shm::ScopedCopyTimer timer;
  ForEach(begin, end, [&](size_t, const char* source, size_t position, size_t bytes) {
    shm::Copy(memory + (position - begin), source, bytes);
  });
}

void Spans::CopyFrom(const char* memory, size_t begin, size_t end) const {
  const shm::ScopedCopyTimer timer;
  ForEach(begin, end, [&](size_t, char* destination, size_t position, size_t bytes) {
    shm::Copy(destination, memory + (position - begin), bytes);
  });
}

}  // namespace xla_shmem
