// A block of a launch that is on a multiprocessor: its memory, and its warps, which run in turns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ptx/kernel.h"
#include "ptx/ptx.h"
#include "ptx/stores_in_flight.h"

namespace ptx {

// xorshift64*: the order of blocks and warps, and what memory holds at first.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 0x632be59bd9b4e019) {}
  uint64_t Next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1d;
  }
  uint64_t Below(uint64_t limit) { return Next() % limit; }

 private:
  uint64_t state_;
};

struct Free {
  void operator()(char* memory) const { free(memory); }
};

// Memory that starts as garbage again for each block.
class Garbage {
 public:
  Garbage(size_t bytes, size_t alignment)
      : bytes_(AlignUp(std::max<size_t>(bytes, 1), alignment)),
        memory_(static_cast<char*>(aligned_alloc(alignment, bytes_))) {}
  char* data() const { return memory_.get(); }
  void Fill(uint64_t pattern) {
    for (size_t at = 0; at + 8 <= bytes_; at += 8) memcpy(memory_.get() + at, &pattern, 8);
  }

 private:
  size_t bytes_;
  std::unique_ptr<char, Free> memory_;
};

class ResidentBlock {
 public:
  // All must outlive it. `arguments` and `known` of the grid are shared by the blocks of a launch.
  ResidentBlock(const Kernel* kernel, const Grid* grid, size_t dynamic_shared, Random* random);
  ResidentBlock(const ResidentBlock&) = delete;
  ResidentBlock& operator=(const ResidentBlock&) = delete;

  // Makes it the block of this number, before its first instruction.
  void Start(uint64_t number);
  enum class Progress { kRunning, kWaiting, kDone, kFailed };
  // Runs each warp for a while. kWaiting: all that can run have come to nanosleep, so they may wait for another block
  // or process.
  Progress Run();
  // After kFailed.
  std::string Report() const;

 private:
  void SetUp(unsigned n);
  void SetRegisters(const Warp& warp);
  void StartWarp(Warp* warp);
  bool ReleaseBarrier();
  void RunSlice(Warp* warp, unsigned instructions);
  void TakeAnotherPath(Warp* warp);

  const Kernel& kernel_;
  const Grid& grid_;
  const unsigned threads_;
  Random& random_;
  StoresInFlight in_flight_;
  Garbage shared_;
  Garbage local_;
  Block block_;
  std::vector<Garbage> registers_;  // of each warp
  std::vector<std::vector<char>> initial_registers_;
  std::vector<Warp> warps_;
  Warp* failed_ = nullptr;
};

}  // namespace ptx
