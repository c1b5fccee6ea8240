#include "xla_patch/types/json_text.h"

namespace xla_shmem {
namespace {

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace

bool JsonCursor::Accept(char expected) {
  SkipSpace();
  if (position_ < text_.size() && text_[position_] == expected) {
    ++position_;
    return true;
  }
  return false;
}

bool JsonCursor::String(std::string_view* content) {
  if (!Accept('"')) return false;
  const size_t start = position_;
  for (; position_ < text_.size(); ++position_) {
    if (text_[position_] == '\\') {
      ++position_;
    } else if (text_[position_] == '"') {
      *content = text_.substr(start, position_ - start);
      ++position_;
      return true;
    }
  }
  return false;
}

bool JsonCursor::Value(std::string_view* value) {
  SkipSpace();
  const size_t start = position_;
  size_t depth = 0;
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == '"') {
      std::string_view ignored;
      if (!String(&ignored)) return false;
      continue;
    }
    if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']' || c == ',') {
      if (depth == 0) break;
      depth -= c == ',' ? 0 : 1;
    }
    ++position_;
  }
  *value = text_.substr(start, position_ - start);
  while (!value->empty() && IsSpace(value->back())) value->remove_suffix(1);
  return depth == 0 && !value->empty();
}

void JsonCursor::SkipSpace() {
  while (position_ < text_.size() && IsSpace(text_[position_])) ++position_;
}

bool FindMember(std::string_view json, std::string_view name, std::string_view* found) {
  JsonCursor cursor(json);
  if (!cursor.Accept('{')) return false;
  bool has_member = false;
  while (!cursor.Accept('}')) {
    std::string_view key;
    std::string_view value;
    if (!cursor.String(&key) || !cursor.Accept(':') || !cursor.Value(&value)) return false;
    if (key == name) {
      *found = value;
      has_member = true;
    }
    cursor.Accept(',');
  }
  return has_member;
}

}  // namespace xla_shmem
