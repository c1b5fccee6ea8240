#include "driver/settings.h"

#include <algorithm>
#include <cstdlib>
#include <string>

namespace emulator {

int64_t Setting(const char* name, int64_t otherwise) {
  const char* text = getenv(("GPU_EMULATOR_" + std::string(name)).c_str());
  return text == nullptr || *text == '\0' ? otherwise : strtoll(text, nullptr, 0);
}

int DeviceCount() {
  static const int count = static_cast<int>(Setting("DEVICES", 1));
  return count;
}

size_t TotalMemory() {
  static const size_t bytes = static_cast<size_t>(Setting("MEMORY", int64_t{8} << 30));
  return bytes;
}

int ComputeCapability() { return static_cast<int>(Setting("COMPUTE_CAPABILITY", 85)); }

int Multiprocessors() {
  static const int count = static_cast<int>(Setting("MULTIPROCESSORS", 132));
  return count;
}

bool HasMig() { return Setting("MIG", 0) != 0; }
int FullGpu() { return static_cast<int>(Setting("FULL_GPU", -1)); }
int UnreachedGpu() { return static_cast<int>(Setting("UNREACHED_GPU", -1)); }

int LinkDomains() {
  static const int count = HasMig() ? DeviceCount() : static_cast<int>(Setting("LINK_DOMAINS", 1));
  return std::max(count, 1);
}

int DriverVersion() { return static_cast<int>(Setting("VERSION", 13000)); }

bool HasMulticast() {
  constexpr int kHopper = 90;
  return ComputeCapability() >= kHopper && LinkDomains() == 1 && Setting("NVLS", 1) != 0;
}

bool HasFabric() { return Setting("FABRIC", 0) != 0; }
bool HasFabricChannel() { return Setting("FABRIC", 0) == 1; }

bool HasWideMemoryOperations() { return Setting("WIDE_MEMORY_OPERATIONS", 1) != 0; }

}  // namespace emulator
