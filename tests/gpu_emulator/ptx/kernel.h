// Decoded modules and kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ptx/syntax.h"
#include "ptx/warp.h"

namespace ptx {

// Registers that every kernel has, as offsets in the register file. The first is a predicate that is always true.
enum SpecialRegister : uint32_t {
  kAlways = 0,
  kTidX = 128,
  kTidY = kTidX + 128,
  kTidZ = kTidY + 128,
  kBlockX = kTidZ + 128,
  kBlockY = kBlockX + 128,
  kBlockZ = kBlockY + 128,
  kBlocksX = kBlockZ + 128,
  kBlocksY = kBlocksX + 128,
  kBlocksZ = kBlocksY + 128,
  kThreadsX = kBlocksZ + 128,
  kThreadsY = kThreadsX + 128,
  kThreadsZ = kThreadsY + 128,
  kLaneId = kThreadsZ + 128,
  kWarpId = kLaneId + 128,
  kWarpCount = kWarpId + 128,
  kLaneMaskEq = kWarpCount + 128,
  kLaneMaskLt = kLaneMaskEq + 128,
  kLaneMaskLe = kLaneMaskLt + 128,
  kLaneMaskGt = kLaneMaskLe + 128,
  kLaneMaskGe = kLaneMaskGt + 128,
  kSink = kLaneMaskGe + 128,  // takes the results for "_"
  kFirstFreeRegister = kSink + 256,
};

struct Constant {
  uint32_t reg;
  size_t bytes;  // 0: a predicate
  uint64_t value;
};

struct Kernel {
  struct Parameter {
    size_t offset, bytes;
  };
  std::string name;
  std::vector<Parameter> parameters;
  size_t parameter_bytes = 0;
  std::vector<Instruction> code;
  std::vector<Constant> constants;
  uint32_t register_bytes = kFirstFreeRegister;
  size_t shared_bytes = 0;
  size_t local_bytes = 0;
  Dim required_block{0, 0, 0};  // zeros if there is none
  size_t maximal_threads = 1024;
  std::vector<std::string> refusals;  // each with the text of the instruction
  FunctionSyntax syntax;
  const Module* module = nullptr;
  bool has_multimem = false;
};

// A variable in global or constant memory.
struct Global {
  std::vector<char> storage;
  char* memory = nullptr;  // in `storage`, aligned
  size_t bytes = 0;
  std::string refusal;
};

struct Module {
  std::map<std::string, std::unique_ptr<Kernel>> kernels;
  std::map<std::string, Global> globals;
  std::map<std::string, Declaration> shared;  // declared outside of functions
};

// Offset rounded up.
inline size_t AlignUp(size_t offset, size_t alignment) { return (offset + alignment - 1) / alignment * alignment; }

}  // namespace ptx
