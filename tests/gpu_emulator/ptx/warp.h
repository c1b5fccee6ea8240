// What instructions work on: a warp of 32 lanes whose registers lie side by side, so that an instruction is a loop over
// lanes that the compiler turns into vector code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ptx/ptx.h"

namespace ptx {

constexpr int kLanes = 32;
constexpr uint32_t kAllLanes = ~0U;

class Aliases;
class StoresInFlight;
struct Statement;
struct Warp;
struct Instruction;
using Handler = void (*)(Warp&, const Instruction&);

enum class Space : uint8_t { kGeneric, kGlobal, kShared, kLocal, kParameter };

// A register is its offset in the warp's register file. A predicate is a word with a bit for each lane; any other
// register holds one value for each lane. Constants are registers too.
struct Instruction {
  Handler run = nullptr;
  uint32_t guard = 0;       // a predicate
  uint32_t guard_flip = 0;  // all ones for "@!p"
  uint32_t d = 0, a = 0, b = 0, c = 0;
  uint32_t d2 = 0;  // second result; 0 if there is none
  int32_t target = 0;
  int64_t number = 0;  // offset of an address, table of lop3, ...
  uint32_t flip = 0;   // all ones if a predicate operand is negated
  int rounding = 0;    // of fenv.h
  Space space = Space::kGeneric;
  bool wide_address = true;
  bool write = false;
  uint8_t mode = 0;
  uint8_t bytes = 0;             // of one element in memory, or of a register that a type does not fill
  uint8_t result_bytes = 0;      // of the register that takes the result
  std::vector<uint32_t> vector;  // registers of {a, b, ...}
  std::vector<int32_t> targets;  // of brx.idx
  const Statement* source = nullptr;
};

struct Block {
  Dim index{};
  char* shared = nullptr;  // aligned to 1024 bytes
  size_t shared_bytes = 0;
  StoresInFlight* in_flight = nullptr;
};

// Device memory that a launch was allowed to access last, for reads and for writes.
struct KnownRanges {
  static constexpr int kSize = 8;
  uint64_t generation = 0;
  AccessibleRange ranges[2][kSize] = {};
  unsigned next = 0;
  bool any_remote = false;
};

// What all threads of a launch share.
struct Grid {
  const Kernel* kernel = nullptr;
  Dim blocks{}, threads{};
  char* arguments = nullptr;  // aligned to 256 bytes
  size_t argument_bytes = 0;
  KnownRanges* known = nullptr;
  Aliases* aliases = nullptr;  // null without multimem instructions
};

// Lanes that have taken the same branches.
struct Path {
  int pc;
  uint32_t lanes;
  bool waiting;  // for other lanes to come to the same instruction
};

enum class WarpState : uint8_t { kReady, kBarrier, kDone };

struct Warp {
  char* registers = nullptr;
  uint32_t active = 0;       // lanes that execute the present instruction
  uint32_t path = 0;         // lanes that are at `pc`
  int pc = 0;                // of the next instruction
  bool interrupted = false;  // by an error, a barrier or a wait for other lanes
  bool blocked = false;      // the present instruction waits for lanes that are elsewhere
  bool sleeps = false;       // it has come to nanosleep
  uint32_t alive = 0;        // lanes that have not ended
  uint32_t carry = 0;        // condition code of add.cc and the like
  std::vector<Path> others;
  WarpState state = WarpState::kReady;
  uint32_t barrier = 0;  // that it waits at
  uint32_t lanes = 0;    // that the block has
  int number = 0;
  Block* block = nullptr;
  const Grid* grid = nullptr;
  char* local = nullptr;   // of lane 0
  size_t local_bytes = 0;  // of each lane
  std::string error;
};

template <typename T>
T* Lane(const Warp& warp, uint32_t reg) {
  return reinterpret_cast<T*>(warp.registers + reg);
}

inline uint32_t& Predicate(const Warp& warp, uint32_t reg) { return *Lane<uint32_t>(warp, reg); }

inline void SetPredicate(Warp& warp, uint32_t reg, uint32_t bits) {
  uint32_t& word = Predicate(warp, reg);
  word = (word & ~warp.active) | (bits & warp.active);
}

// Copies the values of the active lanes.
template <typename T>
inline void SetLanes(Warp& warp, T* to, const T* from) {
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((warp.active >> lane & 1) != 0) to[lane] = from[lane];
  }
}

#if defined(__clang__)
#define PTX_INDEPENDENT_LANES _Pragma("clang loop vectorize(assume_safety)")
#else
#define PTX_INDEPENDENT_LANES _Pragma("GCC ivdep")
#endif

// to[lane] = function(from[lane]...) for the active lanes. `function` must be safe for any value: it also runs for the
// other lanes.
template <typename To, typename Function, typename... From>
[[gnu::always_inline]] inline void ForLanes(Warp& warp, To* to, Function function, const From*... from) {
  if (warp.active == kAllLanes) {
    PTX_INDEPENDENT_LANES
    for (int lane = 0; lane < kLanes; ++lane) to[lane] = function(from[lane]...);
    return;
  }
  To results[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) results[lane] = function(from[lane]...);
  SetLanes(warp, to, results);
}

// function(lane) for the active lanes only.
template <typename Function>
[[gnu::always_inline]] inline void ForActiveLanes(const Warp& warp, Function function) {
  for (uint32_t left = warp.active; left != 0; left &= left - 1) function(__builtin_ctz(left));
}

// Of an instruction that needs none here.
inline void DoNothing(Warp& /*warp*/, const Instruction& /*instruction*/) {}

// Ends the launch.
inline void Fail(Warp& warp, std::string error) {
  warp.error = std::move(error);
  warp.interrupted = true;
}

// True if all `needed` lanes execute the present instruction. Otherwise it runs again when other lanes have come to it.
inline bool Converged(Warp& warp, uint32_t needed) {
  if ((warp.active & needed) == needed) return true;
  warp.blocked = warp.interrupted = true;
  return false;
}

// Ends the active lanes.
void EndThreads(Warp& warp, const Instruction& instruction);

}  // namespace ptx
