// The world of this process: its PEs, their heaps in memory of the emulated GPUs, and what the calls share.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace emulator::nvshmem {

enum class InitStatus { kNone = 0, kBootstrapped = 1, kInitialized = 2 };  // nvshmemx_init_status_t

struct World {
  InitStatus status = InitStatus::kNone;
  int me = -1, size = 0;
  bool shares_gpu = false;  // two PEs are on one GPU
  size_t heap_bytes = 0, used_bytes = 0;
  std::vector<char*> heaps;   // of all PEs, mapped here
  char* multicast = nullptr;  // address of all heaps at once; null without NVLink SHARP
  uint64_t meetings = 0;
};

World& TheWorld();

// Ends the process: the real library would go on with undefined results, or end it too.
[[noreturn]] void Refuse(const std::string& why);
void Demand(bool holds, const std::string& otherwise);
// `call` needs an initialised world. Returns it.
World& Initialized(const char* call);

// Whether GPU_EMULATOR_NVSHMEM is `how`: a failure that a test asks for (README.md).
bool Failing(const char* how);

// What calls on streams must be: after init, on PEs with a GPU each, on a stream of the caller's.
void CheckOnStream(const char* call, CUstream stream);
void CheckSymmetric(const char* call, const void* address, size_t bytes);

// This PE's view of a symmetric address of its own on `pe`.
char* OnPe(const void* address, int pe);
bool IsSymmetric(const void* address, size_t bytes);

// Waits for all PEs; false if they do not come within GPU_EMULATOR_NVSHMEM_TIMEOUT seconds (60).
bool Meet();

// Whether the user wants NVLink SHARP.
bool AsksForNvls();
// Ends the process if NVSHMEM_MAX_TEAMS is too small for the library's own teams.
void CheckTeams();

}  // namespace emulator::nvshmem
