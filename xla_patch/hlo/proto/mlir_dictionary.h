#ifndef XLA_SHMEM_HLO_PROTO_MLIR_DICTIONARY_H_
#define XLA_SHMEM_HLO_PROTO_MLIR_DICTIONARY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xla_shmem::hlo {

// Text of an MLIR dictionary attribute, from which XLA reads the attributes of a typed-FFI custom call in
// backend_config.
//
//   {op = 7 : i64, name = "all-reduce.1", pairs = array<i64: 0, 1>}
class MlirDictionary {
 public:
  void AddInt(const char* key, int64_t value);
  void AddString(const char* key, std::string_view value);
  void AddInts(const char* key, const std::vector<int64_t>& values);
  std::string Text() const { return "{" + members_ + "}"; }

 private:
  void Key(const char* key);
  std::string members_;
};

// Reads back what AddInts wrote. False if the text has no such list.
bool ReadInts(std::string_view dictionary, std::string_view key, std::vector<int64_t>* values);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_MLIR_DICTIONARY_H_
