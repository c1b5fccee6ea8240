// What the preloaded library (posix_memalign.cc) tells the rest of its process.
#ifndef XLA_SHMEM_PRELOAD_INTERFACE_H_
#define XLA_SHMEM_PRELOAD_INTERFACE_H_

#include <cstddef>

namespace xla_shmem {

// The file in memory from which XLA:CPU takes its large buffers.
struct BufferFilePlace {
  int descriptor;
  void* address;  // where all of it is mapped
  size_t bytes;
};

// Looked up by name, because the library may be absent. False if there is no file; the first call may make it.
using FindBufferFile = bool (*)(BufferFilePlace* place);
inline constexpr char kFindBufferFile[] = "xla_shmem_find_buffer_file";

}  // namespace xla_shmem

#endif  // XLA_SHMEM_PRELOAD_INTERFACE_H_
