// Device and host memory that the driver knows.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

namespace emulator {

// Physical memory: a file in memory that other processes can map.
struct Backing {
  int fd = -1;
  size_t bytes = 0;
  int device = 0;
  ~Backing();
};

enum class Kind { kDevice, kHost, kRegistered, kReserved };

struct Range {
  size_t bytes = 0;
  Kind kind = Kind::kDevice;
  int device = 0;
  std::shared_ptr<Backing> backing;
  size_t offset = 0;  // in the backing
  bool ipc = false;
  unsigned long long id = 0;
};

// All ranges by their first address. Requires Global().
std::map<uintptr_t, Range>& Ranges();

// The range that holds `address`, or Ranges().end(). Requires Global().
std::map<uintptr_t, Range>::iterator Find(uintptr_t address);

std::shared_ptr<Backing> NewBacking(size_t bytes, int device);
void* MapBacking(const std::shared_ptr<Backing>& backing, size_t bytes, size_t offset, void* at);

CUresult Allocate(CUdeviceptr* pointer, size_t bytes, int device);
CUresult Free(CUdeviceptr pointer);

// Writes `count` elements in device or host memory.
template <typename T>
void Fill(CUdeviceptr to, T value, size_t count) {
  T* at = reinterpret_cast<T*>(to);
  for (size_t i = 0; i < count; ++i) at[i] = value;
}

}  // namespace emulator
