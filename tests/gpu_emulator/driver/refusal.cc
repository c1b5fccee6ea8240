// What the generated stubs of every library do. Each library is compiled with its name in messages,
// GPU_EMULATOR_LIBRARY, and its "not supported", GPU_EMULATOR_NOT_SUPPORTED.
#include <mutex>
#include <set>
#include <string>

#include "driver/log.h"

extern "C" __attribute__((visibility("hidden"))) int gpu_emulator_refused(const char* name) {
  static auto* mutex = new std::mutex;
  static auto* names = new std::set<std::string>;
  const std::lock_guard<std::mutex> lock(*mutex);
  if (names->insert(name).second) {
    emulator::Complain("refused: %s has no behaviour in the emulated " GPU_EMULATOR_LIBRARY, name);
  }
  return GPU_EMULATOR_NOT_SUPPORTED;
}
