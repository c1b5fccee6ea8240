// The world of this process: its PEs, their heaps in memory of the emulated GPUs, and what the calls share.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace emulator::nvshmem {

enum class InitStatus { kNone = 0, kBootstrapped = 1, kInitialized = 2 };  // nvshmemx_init_status_t

struct Team {
  std::vector<int> members;  // PEs of the world, in the team's order
  int me = -1;
  uint64_t meetings = 0;
};

struct World {
  InitStatus status = InitStatus::kNone;
  int me = -1, size = 0;
  bool shares_gpu = false;  // two PEs are on one GPU
  size_t heap_bytes = 0, used_bytes = 0;
  std::vector<char*> heaps;  // of all PEs, mapped here
  std::vector<Team> teams;
  size_t used_teams = 0;  // with the duplicates that NVSHMEM makes for NVLink SHARP
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

// Waits for all members of a team; false if they do not come within GPU_EMULATOR_NVSHMEM_TIMEOUT seconds (60).
bool Meet(int team);
// Adds a team of these PEs and returns its number; -1 if there are too many. Numbers are the same on all members if all
// PEs of the world make the same teams in the same order.
int AddTeam(std::vector<int> members);
// Makes team 0, that of all PEs.
int AddWorld();

}  // namespace emulator::nvshmem
