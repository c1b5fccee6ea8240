#include "driver/objects.h"

#include <array>

namespace emulator {

namespace {

std::array<std::atomic<bool>, kMostDevices> failed{};

}  // namespace

bool HasFailed(int device) { return failed.at(static_cast<size_t>(device)); }
void SetFailed(int device) { failed.at(static_cast<size_t>(device)) = true; }

std::recursive_mutex& Global() {
  static auto* mutex = new std::recursive_mutex;
  return *mutex;
}

unsigned long long NextId() {
  static std::atomic<unsigned long long> next{1};
  return next++;
}

}  // namespace emulator
