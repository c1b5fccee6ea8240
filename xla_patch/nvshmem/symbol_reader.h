#ifndef XLA_SHMEM_NVSHMEM_SYMBOL_READER_H_
#define XLA_SHMEM_NVSHMEM_SYMBOL_READER_H_

#include <dlfcn.h>

#include <string>

namespace xla_shmem {

// Reads a table of functions from a library that dlopen has opened.
class SymbolReader {
 public:
  explicit SymbolReader(void* handle) : handle_(handle) {}

  template <typename Function>
  void Read(const char* name, Function** slot) {
    void* symbol = dlsym(handle_, name);
    if (symbol == nullptr) missing_ += (missing_.empty() ? "" : ", ") + std::string(name);
    *slot = reinterpret_cast<Function*>(symbol);
  }

  // The slot is null if the library lacks the call.
  template <typename Function>
  void ReadOptional(const char* name, Function** slot) {
    *slot = reinterpret_cast<Function*>(dlsym(handle_, name));
  }

  const std::string& missing() const { return missing_; }

 private:
  void* handle_;
  std::string missing_;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_NVSHMEM_SYMBOL_READER_H_
