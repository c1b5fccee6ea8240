// Symmetric memory by the CUDA driver's virtual memory management, without NVSHMEM: for processes with several GPUs,
// of which NVSHMEM takes one, and where NVSHMEM cannot be loaded.
//
// A heap serves one world. Each process reserves one range of addresses with a part for each PE, of equal size, and
// maps the memory of all PEs there: its own, which it makes, and that of other processes, which it gets as file
// descriptors (one host) or fabric handles (one NVLink fabric). The base may differ between processes, an object's
// offset may not. All of the process's GPUs in the world may read and write all parts.
//
// A multicast object makes one range more, which stands for the same offset in all parts: for reductions in the NVLink
// switch. One process makes it, the others import it, and each adds its GPUs.
//
// Nothing is collective. Unlike NVSHMEM's start, all can be undone: the destructor gives everything back.
#ifndef XLA_SHMEM_NVSHMEM_GPU_DRIVER_HEAP_H_
#define XLA_SHMEM_NVSHMEM_GPU_DRIVER_HEAP_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "xla_patch/nvshmem/gpu/cuda_driver.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::gpu {

// How other processes map a PE's memory; a process alone needs none.
enum class MemorySharing { kNone, kFiles, kFabric };

// Stands for the multicast object where a PE's memory is exported or imported.
inline constexpr int kMulticastObject = -1;

// What a process gives to the others: for each PE, and then for the multicast object if this process has made it, the
// bytes of a fabric handle, or of a file descriptor.
using SharedMemory = std::vector<std::pair<int, std::string>>;

// A PE of this process.
struct LocalPe {
  int pe = 0;
  int device = 0;  // CUDA ordinal
};

class DriverHeap {
 public:
  struct Options {
    std::vector<LocalPe> own;
    int n_pes = 1;
    size_t bytes = 0;  // of each PE
    MemorySharing sharing = MemorySharing::kNone;
    bool multicast = false;  // whether a multicast object may follow
  };

  // Makes the memory of this process's PEs. `cuda` must outlive the heap, and the devices' contexts must exist.
  static Result<std::unique_ptr<DriverHeap>> Create(const CudaDriver* cuda, const Options& options);
  ~DriverHeap();
  DriverHeap(const DriverHeap&) = delete;
  DriverHeap& operator=(const DriverHeap&) = delete;

  // Makes the world's multicast object, in one of its processes.
  Status MakeMulticast();
  // What other processes import of an own PE, and of all and the multicast object: nothing if this process is alone.
  // The caller closes file descriptors.
  Result<std::string> Export(int pe) const;
  Result<SharedMemory> ExportAll() const;
  // Maps the memory of a PE of another process. A file descriptor stays the caller's.
  Status Import(int pe, const std::string& handle);
  // Lets this process's GPUs use the memory of all PEs, which has been imported.
  Status Open();

  // Adds this process's GPUs to the multicast object.
  Status AddToMulticast();
  // Maps the object. All processes have added their GPUs: the driver waits for those that are missing.
  Status OpenMulticast();

  // Address of an own PE's object, at the same offset on all PEs if they allocate alike; null if nothing is left.
  void* Allocate(int pe, size_t bytes);
  char* part(int pe) const { return base_ + static_cast<size_t>(pe) * part_bytes_; }
  size_t part_bytes() const { return part_bytes_; }

  // The same object at another PE, or at all at once. Null outside the heap, and before it is open.
  void* PeerAddress(const void* object, int pe) const;
  void* MulticastAddress(const void* object) const;

 private:
  DriverHeap(const CudaDriver* cuda, Options options) : cuda_(cuda), options_(std::move(options)) {}
  Status Make();
  Status Map(int pe, MemoryHandle memory);
  Result<MemoryHandle> HandleOf(int pe) const;
  MulticastProperties ForMulticast() const;
  std::vector<MemoryAccess> OwnAccess() const;
  const LocalPe* FindOwn(int pe) const;
  bool Contains(const void* address) const;

  const CudaDriver* const cuda_;
  const Options options_;
  char* base_ = nullptr;
  size_t part_bytes_ = 0;
  std::map<int, MemoryHandle> memory_;  // by PE, all that this process has made or imported
  std::vector<size_t> taken_;           // bytes of each PE's part
  bool open_ = false;
  char* multicast_ = nullptr;                // the object's addresses, once it is open
  std::vector<std::function<void()>> undo_;  // what the destructor calls, the last one first
};

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_DRIVER_HEAP_H_
