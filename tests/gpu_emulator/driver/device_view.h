// Where GPU work finds device memory.
//
// Device pointers lie in one window of addresses, which the host cannot read, as on hardware. The same memory is mapped
// a second time, kDeviceViewOffset above; kernels, copies and library doubles use that view. Host memory, pinned or
// not, has one address. This header depends on nothing, so that the PTX interpreter and the library doubles share it.
#pragma once

#include <cstdint>

namespace emulator {

constexpr uint64_t kDeviceWindow = uint64_t{0x200000000000};
constexpr uint64_t kDeviceWindowBytes = uint64_t{0x080000000000};  // 8 TiB
constexpr uint64_t kDeviceViewOffset = uint64_t{0x100000000000};

inline bool IsDeviceAddress(uint64_t address) { return address - kDeviceWindow < kDeviceWindowBytes; }

// The address at which a thread that stands for the GPU reads and writes `address`.
template <typename T = void>
inline T* DeviceView(uint64_t address) {
  return reinterpret_cast<T*>(IsDeviceAddress(address) ? address + kDeviceViewOffset : address);
}
template <typename T>
inline T* DeviceView(T* pointer) {
  return DeviceView<T>(reinterpret_cast<uint64_t>(pointer));
}

}  // namespace emulator
