#ifndef XLA_SHMEM_HLO_PROTO_MLIR_DICTIONARY_H_
#define XLA_SHMEM_HLO_PROTO_MLIR_DICTIONARY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace xla_shmem::hlo {

// An MLIR dictionary attribute: the attributes of a typed-FFI custom call.
class MlirDictionary {
 public:
  using Value = std::variant<int64_t, std::string, std::vector<int64_t>>;

  void AddInt(const char* key, int64_t value) { members_.emplace_back(key, value); }
  void AddString(const char* key, std::string_view value) { members_.emplace_back(key, std::string(value)); }
  void AddInts(const char* key, std::vector<int64_t> values) { members_.emplace_back(key, std::move(values)); }

  // In the order in which they were added.
  const std::vector<std::pair<std::string, Value>>& members() const { return members_; }
  // From this text in backend_config XLA reads the attributes:
  //
  //   {op = 7 : i64, name = "all-reduce.1", pairs = array<i64: 0, 1>}
  std::string Text() const;

 private:
  std::vector<std::pair<std::string, Value>> members_;
};

// Reads back what AddInts wrote. False if the text has no such list.
bool ReadInts(std::string_view dictionary, std::string_view key, std::vector<int64_t>* values);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_MLIR_DICTIONARY_H_
