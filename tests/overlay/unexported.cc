#include "tests/overlay/unexported.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "absl/log/check.h"

namespace {

// A file's bytes, mapped.
class MappedFile {
 public:
  explicit MappedFile(const char* path) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat facts = {};
    QCHECK(file >= 0 && fstat(file, &facts) == 0) << path;
    size_ = static_cast<size_t>(facts.st_size);
    bytes_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
    QCHECK(bytes_ != MAP_FAILED) << path;
    close(file);
  }
  ~MappedFile() { munmap(bytes_, size_); }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  template <typename T>
  const T* At(size_t offset) const {
    return reinterpret_cast<const T*>(static_cast<const char*>(bytes_) + offset);
  }

 private:
  size_t size_ = 0;
  void* bytes_ = nullptr;
};

}  // namespace

void* FindUnexported(const void* exported, const char* name) {
  Dl_info library = {};
  QCHECK(dladdr(exported, &library) != 0);
  const MappedFile file(library.dli_fname);
  const auto* const header = file.At<Elf64_Ehdr>(0);
  const auto* const sections = file.At<Elf64_Shdr>(header->e_shoff);
  for (size_t i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const auto* const symbols = file.At<Elf64_Sym>(sections[i].sh_offset);
    const char* const names = file.At<char>(sections[sections[i].sh_link].sh_offset);
    for (size_t k = 0; k < sections[i].sh_size / sizeof(Elf64_Sym); ++k) {
      if (std::strcmp(names + symbols[k].st_name, name) != 0) continue;
      return static_cast<char*>(library.dli_fbase) + symbols[k].st_value;
    }
  }
  QCHECK(false) << library.dli_fname << " has no function " << name;
}
