#include "xla_patch/thunks/gpu/message_tag.h"

#include <cstdio>
#include <mutex>
#include <unordered_map>

namespace xla_shmem::gpu {
namespace {

// Never destroyed: XLA's threads may use it until the process exits.
struct Names {
  std::mutex mutex;
  std::unordered_map<uint32_t, std::string> of_tag;
};

Names& TheNames() {
  static auto* const names = new Names;
  return *names;
}

// Empty if this process does not remember the tag.
std::string NameOf(uint32_t tag) {
  Names& names = TheNames();
  const std::lock_guard<std::mutex> lock(names.mutex);
  const auto found = names.of_tag.find(tag);
  return found == names.of_tag.end() ? "" : found->second;
}

std::string Hexadecimal(uint32_t tag) {
  char text[16];
  snprintf(text, sizeof(text), "0x%08x", tag);
  return text;
}

}  // namespace

uint32_t TagOfOperation(uint64_t hash) {
  const auto tag = static_cast<uint32_t>(hash ^ (hash >> 32));
  return tag == 0 ? 1 : tag;
}

void RememberTag(uint32_t tag, const std::string& name) {
  Names& names = TheNames();
  const std::lock_guard<std::mutex> lock(names.mutex);
  names.of_tag.try_emplace(tag, name);
}

std::string DescribeOtherCollective(const std::string& name, int pe, int peer, uint32_t other) {
  const std::string theirs = NameOf(other);
  return name + " on PE " + std::to_string(pe) + ": PE " + std::to_string(peer) + " sent a message of " +
         (theirs.empty() ? "a collective that this process has not loaded (tag " + Hexadecimal(other) + ")"
                         : "another collective, " + theirs + (theirs == name ? " of another program" : "")) +
         ": the processes run different programs, or start them in another order";
}

std::string DescribeOtherCollective(uint32_t own, int pe, int peer, uint32_t other) {
  const std::string ours = NameOf(own);
  return DescribeOtherCollective(ours.empty() ? "a collective with tag " + Hexadecimal(own) : ours, pe, peer, other);
}

}  // namespace xla_shmem::gpu
