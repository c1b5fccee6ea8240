#include "xla_patch/hlo/mlir_dictionary.h"

namespace xla_shmem::hlo {

void MlirDictionary::Key(const char* key) {
  members_ += members_.empty() ? "" : ", ";
  members_ += key;
  members_ += " = ";
}

void MlirDictionary::AddInt(const char* key, int64_t value) {
  Key(key);
  members_ += std::to_string(value) + " : i64";
}

void MlirDictionary::AddString(const char* key, std::string_view value) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  Key(key);
  members_ += '"';
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    // MLIR's lexer knows \" and \\ but its printer writes hex for everything unusual; hex is right for any byte.
    if (byte < 0x20 || byte > 0x7e || c == '"' || c == '\\') {
      members_ += '\\';
      members_ += kHex[byte >> 4];
      members_ += kHex[byte & 15];
    } else {
      members_ += c;
    }
  }
  members_ += '"';
}

void MlirDictionary::AddInts(const char* key, const std::vector<int64_t>& values) {
  Key(key);
  members_ += "array<i64";
  for (size_t i = 0; i < values.size(); ++i) {
    members_ += i == 0 ? ": " : ", ";
    members_ += std::to_string(values[i]);
  }
  members_ += '>';
}

}  // namespace xla_shmem::hlo
