#include "xla_patch/shm/shared_buffers.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "xla_patch/shm/buffer_file.h"

namespace xla_shmem::shm {

SharedBuffersRecord OwnSharedBuffers() {
  SharedBuffersRecord record{};
  const auto find = reinterpret_cast<FindBufferFile>(dlsym(RTLD_DEFAULT, kFindBufferFile));
  BufferFilePlace file{};
  struct stat status;
  if (find == nullptr || !find(&file) || fstat(file.descriptor, &status) != 0) return record;
  record.device = status.st_dev;
  record.inode = status.st_ino;
  record.address = reinterpret_cast<uint64_t>(file.address);
  record.bytes = file.bytes;
  record.file = file.descriptor;
  return record;
}

std::unique_ptr<SharedBuffers> SharedBuffers::Map(const SharedBuffersRecord& record, int64_t pid) {
  if (record.bytes == 0) return nullptr;
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(record.file);
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return nullptr;
  struct stat status;
  const bool is_it = fstat(file, &status) == 0 && status.st_dev == record.device && status.st_ino == record.inode &&
                     static_cast<uint64_t>(status.st_size) == record.bytes;
  void* const here = is_it ? mmap(nullptr, record.bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, file, 0) : MAP_FAILED;
  close(file);
  if (here == MAP_FAILED) return nullptr;
  madvise(here, record.bytes, MADV_DONTDUMP);  // a core file has its own process's buffers
  madvise(here, record.bytes, MADV_DONTFORK);
  return std::unique_ptr<SharedBuffers>(
      new SharedBuffers(record.address, record.bytes, static_cast<const char*>(here)));
}

SharedBuffers::~SharedBuffers() { munmap(const_cast<char*>(here_), bytes_); }

}  // namespace xla_shmem::shm
