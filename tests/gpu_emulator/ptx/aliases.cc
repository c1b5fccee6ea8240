#include "ptx/aliases.h"

namespace ptx {

bool Aliases::Access(const char* host, bool multicast, bool write, uint64_t thread) {
  constexpr uintptr_t kUnit = 16;
  Unit& unit = units_[reinterpret_cast<uintptr_t>(host) / kUnit];
  unit.of[multicast][write] = {++time_, thread};
  for (const bool wrote : {false, true}) {
    const Last& before = unit.of[!multicast][wrote];
    if (before.time == 0 || !(wrote || write)) continue;
    if (fences_[before.thread] < before.time && fences_[thread] < before.time) return false;
  }
  return true;
}

}  // namespace ptx
