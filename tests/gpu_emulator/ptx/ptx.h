// An interpreter of PTX for the emulated driver: what XLA's LLVM emits, apart from tensor cores and asynchronous
// copies.
//
// A kernel that holds anything that is not understood cannot be launched: Launch names the instruction before a thread
// runs. It is stricter than a GPU: misaligned and out-of-bounds accesses, barriers that not all threads reach and
// shuffles of lanes that are not there end the kernel with an error; registers, shared and local memory start as
// garbage; blocks and warps run in an order that the seed GPU_EMULATOR_SEED determines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ptx {

struct Dim {
  unsigned x, y, z;
};
struct Module;
struct Kernel;

// Null with `*error` set if `text` has no structure of PTX. Otherwise a module; `*error` lists what its kernels hold
// that is not understood, if anything.
std::shared_ptr<Module> Parse(const char* text, std::string* error);

// Null if there is none of this name.
const Kernel* FindKernel(const Module& module, const std::string& name);
void* FindGlobal(Module& module, const std::string& name, size_t* bytes);

// Bytes of shared memory that the kernel declares itself.
size_t SharedBytes(const Kernel& kernel);

// The values behind `parameters`, laid out as the kernel expects them.
std::vector<char> PackArguments(const Kernel& kernel, void** parameters);

// Runs all threads. Returns "", or what went wrong, with the kernel's name, the threads and the instruction.
std::string Launch(const Kernel& kernel, Dim grid, Dim block, unsigned dynamic_shared,
                   const std::vector<char>& arguments);

// Memory that kernels may access.
struct AccessibleRange {
  uint64_t begin, end;
  bool remote = false;  // of another GPU: stores arrive late and in any order (stores_in_flight.h)
};

// Returns false if a kernel may not read or write these bytes; otherwise sets `*range` to bytes around them that it may
// access in the same way. The interpreter asks only for what lies outside the ranges that it has been given.
using AccessCheck = bool (*)(uint64_t address, size_t bytes, bool write, AccessibleRange* range);

// Null, which is the default, accepts every address.
void SetAccessCheck(AccessCheck check);

// Sets `*members` to the addresses that a multicast address stands for; false if `bytes` bytes there are not multicast
// memory.
using MulticastMembers = bool (*)(uint64_t address, size_t bytes, std::vector<uint64_t>* members);

// Null, which is the default: there is no multicast memory.
void SetMulticastMembers(MulticastMembers members);

// Has every range asked for again: to be called after memory has been freed or unmapped.
void ForgetAccessibleRanges();

}  // namespace ptx
