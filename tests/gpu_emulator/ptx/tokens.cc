#include "ptx/tokens.h"

#include <algorithm>
#include <cctype>

namespace ptx {
namespace {

bool IsWord(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '.' || c == '%';
}

// The place behind a comment, a string or a word that starts at `at`; `at` if none does.
size_t CommentEnd(const std::string& source, size_t at) {
  if (source.compare(at, 2, "//") == 0) return std::min(source.find('\n', at), source.size());
  if (source.compare(at, 2, "/*") != 0) return at;
  const size_t end = source.find("*/", at + 2);
  return end == std::string::npos ? source.size() : end + 2;
}

size_t TokenEnd(const std::string& source, size_t at) {
  if (source[at] == '"') {
    const size_t end = source.find('"', at + 1);
    return end == std::string::npos ? source.size() : end + 1;
  }
  size_t end = at;
  while (end < source.size()) {
    if (IsWord(source[end])) {
      ++end;
    } else if (end > at && source.compare(end, 2, "::") == 0) {
      end += 2;
    } else {
      break;
    }
  }
  return end > at ? end : at + 1;
}

}  // namespace

std::vector<Token> Tokens(const std::string& source) {
  std::vector<Token> tokens;
  int line = 1;
  for (size_t at = 0; at < source.size();) {
    size_t end = CommentEnd(source, at);
    const bool comment = end > at;
    if (!comment && std::isspace(static_cast<unsigned char>(source[at])) != 0) {
      end = at + 1;
    } else if (!comment) {
      end = TokenEnd(source, at);
      tokens.push_back({source.substr(at, end - at), line, at, end});
    }
    for (; at < end; ++at) line += source[at] == '\n';
  }
  return tokens;
}

}  // namespace ptx
