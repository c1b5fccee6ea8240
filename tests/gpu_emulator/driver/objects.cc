#include "driver/objects.h"

namespace emulator {

std::atomic<bool> failed{false};

std::recursive_mutex& Global() {
  static auto* mutex = new std::recursive_mutex;
  return *mutex;
}

unsigned long long NextId() {
  static std::atomic<unsigned long long> next{1};
  return next++;
}

}  // namespace emulator
