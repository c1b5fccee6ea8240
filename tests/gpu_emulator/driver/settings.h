// Settings of the emulated machine, each an environment variable GPU_EMULATOR_<NAME>.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulator {

// The value of GPU_EMULATOR_<name> as a number, or `otherwise`.
int64_t Setting(const char* name, int64_t otherwise);

int DeviceCount();               // DEVICES: GPUs of the machine (1)
size_t TotalMemory();            // MEMORY: bytes of each GPU (8 GiB)
int ComputeCapability();         // COMPUTE_CAPABILITY: 10 x major + minor (85)
int Multiprocessors();           // MULTIPROCESSORS (132)
int LinkDomains();               // LINK_DOMAINS (1); with MIG each GPU is one
bool HasMig();                   // MIG: the GPUs are instances of MIG (0)
int FullGpu();                   // FULL_GPU: refuses the first cuMemCreate of a process (-1: none)
int UnreachedGpu();              // UNREACHED_GPU: has links, but no peer access (-1: none)
int DriverVersion();             // VERSION (13000)
bool HasWideMemoryOperations();  // WIDE_MEMORY_OPERATIONS: 64-bit stream memory operations (1)
bool HasMulticast();             // NVLS: NVLink SHARP of GPUs of compute capability 9.0 and above (1)

// FABRIC: handles that other hosts of the NVLink domain can import (0). 2: without an IMEX channel, which they need.
bool HasFabric();
bool HasFabricChannel();

// Whether two GPUs of the machine have NVLinks to each other: their numbers are equal modulo LinkDomains().
inline bool AreLinked(int gpu, int other) { return gpu % LinkDomains() == other % LinkDomains(); }

// Whether they reach each other's memory.
inline bool MayMap(int gpu, int other) {
  return AreLinked(gpu, other) && gpu != UnreachedGpu() && other != UnreachedGpu();
}

}  // namespace emulator
