// Splits PTX into words, strings and punctuation.
#pragma once

#include <string>
#include <vector>

namespace ptx {

struct Token {
  std::string text;
  int line;
  size_t begin, end;  // in the source
};

// Comments are left out. A string keeps its quotes. "::" is part of a word.
std::vector<Token> Tokens(const std::string& source);

}  // namespace ptx
