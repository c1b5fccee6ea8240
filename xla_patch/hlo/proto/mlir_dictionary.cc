#include "xla_patch/hlo/proto/mlir_dictionary.h"

#include <charconv>

namespace xla_shmem::hlo {

namespace {

void Append(int64_t value, std::string* text) { *text += std::to_string(value) + " : i64"; }

void Append(std::string_view value, std::string* text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  *text += '"';
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    // MLIR's lexer accepts \" and \\, but its printer writes all unusual bytes in hex; hex is right for any byte.
    if (byte < 0x20 || byte > 0x7e || c == '"' || c == '\\') {
      *text += '\\';
      *text += kHex[byte >> 4];
      *text += kHex[byte & 15];
    } else {
      *text += c;
    }
  }
  *text += '"';
}

void Append(const std::vector<int64_t>& values, std::string* text) {
  *text += "array<i64";
  for (size_t i = 0; i < values.size(); ++i) {
    *text += i == 0 ? ": " : ", ";
    *text += std::to_string(values[i]);
  }
  *text += '>';
}

}  // namespace

std::string MlirDictionary::Text() const {
  std::string text = "{";
  for (const auto& [key, value] : members_) {
    if (text.size() > 1) text += ", ";
    text += key + " = ";
    std::visit([&](const auto& held) { Append(held, &text); }, value);
  }
  return text + "}";
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
