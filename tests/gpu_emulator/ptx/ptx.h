// A small interpreter of PTX: what XLA:GPU and NVRTC emit for sm_90 without tensor cores.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace ptx {

struct Dim {
  unsigned x, y, z;
};
struct Module;
struct Kernel;

// Null with an error, or a module with kernels; what could not be decoded is an error once a thread comes to it.
std::shared_ptr<Module> Parse(const char* text, std::string* error);
const Kernel* FindKernel(const Module& module, const std::string& name);
void* FindGlobal(Module& module, const std::string& name, size_t* bytes);
std::vector<char> PackArguments(const Kernel& kernel, void** parameters);
// "" or what went wrong.
std::string Launch(const Kernel& kernel, Dim grid, Dim block, unsigned dynamic_shared,
                   const std::vector<char>& arguments);

}  // namespace ptx
