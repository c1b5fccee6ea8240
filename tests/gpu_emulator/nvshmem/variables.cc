#include "nvshmem/variables.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include "nvshmem/world.h"

namespace emulator::nvshmem {
namespace {

constexpr char kPrefix[] = "NVSHMEM_";

std::map<std::string, std::string>* variables = nullptr;

}  // namespace

void ReadVariables() {
  if (variables != nullptr) return;
  variables = new std::map<std::string, std::string>;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const char* value = strchr(*entry, '=');
    if (value == nullptr || strncmp(*entry, kPrefix, sizeof(kPrefix) - 1) != 0) continue;
    (*variables)[std::string(*entry, value - *entry)] = value + 1;
  }
}

std::string Variable(const char* name, const char* otherwise) {
  const auto found = variables->find(name);
  return found == variables->end() ? otherwise : found->second;
}

size_t VariableBytes(const char* name, size_t otherwise) {
  const std::string text = Variable(name, "");
  if (text.empty()) return otherwise;
  char* end = nullptr;
  const size_t number = strtoull(text.c_str(), &end, 10);
  const std::string suffixes = "kmgKMG";
  const size_t suffix = *end == '\0' ? std::string::npos : suffixes.find(*end);
  Demand(number > 0 && (*end == '\0' || suffix != std::string::npos),
         std::string(name) + " is no number of bytes: " + text);
  return suffix == std::string::npos ? number : number << 10 * (suffix % 3 + 1);
}

}  // namespace emulator::nvshmem
