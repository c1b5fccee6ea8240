// Reads JSON text in place.
#ifndef XLA_SHMEM_TYPES_JSON_TEXT_H_
#define XLA_SHMEM_TYPES_JSON_TEXT_H_

#include <cstddef>
#include <string_view>

namespace xla_shmem {

// Walks JSON text without building anything and without recursion, so that deep nesting costs no stack.
class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text) : text_(text) {}

  bool Accept(char expected);
  // The characters between the quotes, escapes left as they are.
  bool String(std::string_view* content);
  // Any value; brackets are counted, strings are skipped as strings.
  bool Value(std::string_view* value);

 private:
  void SkipSpace();

  std::string_view text_;
  size_t position_ = 0;
};

// The value of a member of the outermost object; the last one if a key is repeated, as JSON parsers do.
bool FindMember(std::string_view json, std::string_view name, std::string_view* found);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_TYPES_JSON_TEXT_H_
