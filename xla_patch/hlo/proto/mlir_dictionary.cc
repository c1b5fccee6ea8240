#include "xla_patch/hlo/proto/mlir_dictionary.h"

#include <charconv>

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
    // MLIR's lexer accepts \" and \\, but its printer writes all unusual bytes in hex; hex is right for any byte.
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

bool ReadInts(std::string_view dictionary, std::string_view key, std::vector<int64_t>* values) {
  const std::string start = std::string(key) + " = array<i64";
  bool is_quoted = false;  // no string holds a quote: it is written in hex
  for (size_t at = 0; at < dictionary.size(); ++at) {
    is_quoted = is_quoted != (dictionary[at] == '"');
    const bool is_key_start = at > 0 && (dictionary[at - 1] == '{' || dictionary[at - 1] == ' ');
    if (is_quoted || !is_key_start || dictionary.substr(at, start.size()) != start) continue;
    values->clear();
    const char* next = dictionary.data() + at + start.size();
    const char* const end = dictionary.data() + dictionary.size();
    while (next < end && *next != '>') {
      int64_t value = 0;
      next += *next == ':' || *next == ',' ? 2 : 0;  // ": " before the first, ", " before the others
      const auto [after, problem] =
          next < end ? std::from_chars(next, end, value) : std::from_chars_result{next, std::errc::invalid_argument};
      if (problem != std::errc()) return false;
      values->push_back(value);
      next = after;
    }
    return next < end;
  }
  return false;
}

}  // namespace xla_shmem::hlo
