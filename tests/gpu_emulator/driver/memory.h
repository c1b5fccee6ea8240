// Device and host memory that the driver knows.
//
// Device memory: a file in memory for each piece of physical memory, mapped into the view of GPU work (device_view.h).
// Addresses are never given twice, so what is freed stays unmapped. Fresh memory is filled with a byte that the seed
// decides and that is never zero.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "driver/device_view.h"

namespace emulator {

constexpr size_t kPage = 4096;
constexpr size_t kGranularity = size_t{2} << 20;  // of virtual memory management

// Physical memory: a file in memory that other processes can map.
struct Backing {
  int fd = -1;
  size_t bytes = 0;
  int device = 0;                    // -1: a GPU that is not visible to this process
  int gpu = 0;                       // the same GPU, by its number in the machine
  bool counted = false;              // in its device's used memory
  bool is_virtual = false;           // of cuMemCreate, or to be treated so
  CUmemAllocationProp properties{};  // of cuMemCreate; zeros for memory of other calls
  ~Backing();
};

struct MulticastObject;

enum class Kind {
  kDevice,      // cuMemAlloc
  kPool,        // cuMemAllocAsync
  kVirtual,     // cuMemMap
  kImported,    // cuIpcOpenMemHandle
  kGlobal,      // a module's variable: host memory that the interpreter uses
  kManaged,     // cuMemAllocManaged: host and GPU share the address
  kHost,        // cuMemHostAlloc
  kRegistered,  // cuMemHostRegister
  kMulticast,   // cuMemMap of a multicast object
};

struct Range {
  size_t bytes = 0;
  Kind kind = Kind::kDevice;
  int device = 0;
  std::shared_ptr<Backing> backing;
  unsigned long long id = 0;
  std::string call = {};           // that made it
  std::map<int, int> access = {};  // of virtual memory: device -> PROT_READ | PROT_WRITE
  std::shared_ptr<MulticastObject> multicast = nullptr;
  CUmemoryPool pool = nullptr;
};

// Whether cuMemPoolSetAccess gave the device a right to the pool's memory. Requires Global().
bool PoolAllows(CUmemoryPool pool, int device);

// All ranges by their first address. Requires Global().
std::map<uintptr_t, Range>& Ranges();

// The range that holds `address`, or Ranges().end(). Requires Global().
std::map<uintptr_t, Range>::iterator Find(uintptr_t address);

bool IsDeviceMemory(const Range& range);

// Forgets a range and remembers who freed it. Requires Global().
void Forget(std::map<uintptr_t, Range>::iterator range, const char* call);

// Takes back the memory of a freed range, whose addresses the system may give again. Requires Global().
void ForgetFreed(uintptr_t first);

// "0x2000... lies 16 bytes into 1024 bytes that cuMemAlloc_v2 made": for messages. Requires Global().
std::string Describe(uintptr_t address);

// Ends the process unless GPU work of `device` may use all of the memory. Host memory that the driver does not know
// counts as pageable, and passes. Copies also reach what cuMemAlloc made on a device without peer access: the driver
// stages them. Mapped memory needs access for them too.
enum class Use { kRead, kWrite, kCopyFrom, kCopyTo };
void CheckAccess(uint64_t address, size_t bytes, Use use, int device, const char* operation);

// "" if a kernel of `device` may use all of the memory; [*begin, *end) are then bytes around it for which the same
// holds, and `*remote` whether another GPU has some of them. Otherwise why not. Pageable host memory is not for
// kernels.
std::string MayAccess(uint64_t address, size_t bytes, Use use, int device, uint64_t* begin, uint64_t* end,
                      bool* remote);

// Whether the memory is on another GPU than `device`.
bool IsRemote(const Backing& backing, int device);

// The device whose work this thread runs, or that is current.
int WorkingDevice();

// Physical memory of `device`; null if it has not that much left. Requires Global().
std::shared_ptr<Backing> NewBacking(size_t bytes, int device);

// Addresses of device memory. They are never given again.
uint64_t NewAddresses(size_t bytes, size_t alignment);

// Maps memory at the GPU's view of `address`, or takes it away. False if the system has no memory left.
bool MapView(uint64_t address, const Backing& backing, size_t bytes, int protection);
void UnmapView(uint64_t address, size_t bytes);

void FillFresh(uint64_t address, size_t bytes);

CUresult Allocate(CUdeviceptr* pointer, size_t bytes, int device, Kind kind, const char* call);

// Ends the process if `pointer` is not the start of such an allocation.
void Free(CUdeviceptr pointer, const char* call);

}  // namespace emulator
