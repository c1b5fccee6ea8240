// Launches: blocks one after the other, the warps of a block in turns.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ptx/kernel.h"
#include "ptx/ptx.h"

namespace ptx {
namespace {

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

uint64_t NextSeed() {
  static const uint64_t seed = [] {
    const char* text = getenv("GPU_EMULATOR_SEED");
    return text == nullptr ? 1 : strtoull(text, nullptr, 10);
  }();
  static std::atomic<uint64_t> launches{0};
  return seed + launches.fetch_add(1) * 0x10001;
}

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

template <typename Value>
void SetAll(const Warp& warp, uint32_t reg, Value value) {
  std::fill_n(Lane<Value>(warp, reg), kLanes, value);
}

class Launcher {
 public:
  Launcher(const Kernel& kernel, Dim grid, Dim block, unsigned dynamic_shared, const std::vector<char>& arguments)
      : kernel_(kernel),
        threads_(block.x * block.y * block.z),
        random_(NextSeed()),
        arguments_(arguments.size(), 256),
        shared_(kernel.shared_bytes + dynamic_shared, 1024),
        local_(AlignUp(kernel.local_bytes, 16) * AlignUp(threads_, kLanes), 256) {
    std::copy(arguments.begin(), arguments.end(), arguments_.data());
    grid_ = {&kernel, grid, block, arguments_.data(), arguments.size(), &known_};
    block_.shared = shared_.data();
    block_.shared_bytes = kernel.shared_bytes + dynamic_shared;
    const unsigned count = (threads_ + kLanes - 1) / kLanes;
    warps_.resize(count);
    for (unsigned n = 0; n < count; ++n) {
      registers_.emplace_back(kernel.register_bytes, 256);
      SetUp(n);
    }
  }

  std::string Run() {
    const uint64_t blocks = uint64_t{grid_.blocks.x} * grid_.blocks.y * grid_.blocks.z;
    // A step without a common factor with the number of blocks comes to each of them once.
    uint64_t step = blocks == 1 ? 1 : 1 + random_.Below(blocks - 1);
    while (std::gcd(step, blocks) != 1) ++step;
    uint64_t block = random_.Below(blocks);
    for (uint64_t done = 0; done < blocks; ++done, block = (block + step) % blocks) {
      StartBlock(block);
      if (!RunBlock()) return Report();
    }
    return "";
  }

 private:
  // Sets what does not change between blocks, and keeps the registers as they are when a block starts.
  void SetUp(unsigned n) {
    Warp& warp = warps_[n];
    warp.number = static_cast<int>(n);
    warp.registers = registers_[n].data();
    warp.block = &block_;
    warp.grid = &grid_;
    warp.local_bytes = AlignUp(kernel_.local_bytes, 16);
    warp.local = local_.data() + warp.local_bytes * kLanes * n;
    const unsigned left = threads_ - n * kLanes;
    warp.lanes = left >= kLanes ? kAllLanes : (1U << left) - 1;
    registers_[n].Fill(random_.Next());
    SetRegisters(warp);
    initial_registers_.emplace_back(warp.registers, warp.registers + kernel_.register_bytes);
  }

  void SetRegisters(const Warp& warp) {
    Predicate(warp, kAlways) = ~0U;
    const Dim& threads = grid_.threads;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const unsigned thread = static_cast<unsigned>(warp.number) * kLanes + lane;
      const uint32_t mine = 1U << lane, below = mine - 1;
      const std::pair<uint32_t, uint32_t> values[] = {{kTidX, thread % threads.x},
                                                      {kTidY, thread / threads.x % threads.y},
                                                      {kTidZ, thread / threads.x / threads.y},
                                                      {kLaneId, lane},
                                                      {kLaneMaskEq, mine},
                                                      {kLaneMaskLt, below},
                                                      {kLaneMaskLe, below | mine},
                                                      {kLaneMaskGt, ~(below | mine)},
                                                      {kLaneMaskGe, ~below}};
      for (const auto& [reg, value] : values) Lane<uint32_t>(warp, reg)[lane] = value;
    }
    const std::pair<uint32_t, uint32_t> values[] = {{kBlocksX, grid_.blocks.x},
                                                    {kBlocksY, grid_.blocks.y},
                                                    {kBlocksZ, grid_.blocks.z},
                                                    {kThreadsX, threads.x},
                                                    {kThreadsY, threads.y},
                                                    {kThreadsZ, threads.z},
                                                    {kWarpId, static_cast<uint32_t>(warp.number)},
                                                    {kWarpCount, static_cast<uint32_t>(warps_.size())}};
    for (const auto& [reg, value] : values) SetAll(warp, reg, value);
    for (const Constant& constant : kernel_.constants) SetConstant(warp, constant);
  }

  void StartBlock(uint64_t number) {
    const Dim& blocks = grid_.blocks;
    block_.index = {static_cast<unsigned>(number % blocks.x), static_cast<unsigned>(number / blocks.x % blocks.y),
                    static_cast<unsigned>(number / blocks.x / blocks.y)};
    shared_.Fill(random_.Next());
    if (kernel_.local_bytes != 0) local_.Fill(random_.Next());
    for (Warp& warp : warps_) {
      const std::vector<char>& initial = initial_registers_[static_cast<size_t>(warp.number)];
      memcpy(warp.registers, initial.data(), initial.size());
      StartWarp(&warp);
    }
  }

  void StartWarp(Warp* warp) {
    warp->alive = warp->path = warp->lanes;
    warp->pc = 0;
    warp->others.clear();
    warp->state = WarpState::kReady;
    warp->interrupted = warp->blocked = false;
    warp->carry = static_cast<uint32_t>(random_.Next());
    SetAll(*warp, kBlockX, block_.index.x);
    SetAll(*warp, kBlockY, block_.index.y);
    SetAll(*warp, kBlockZ, block_.index.z);
  }

  static void SetConstant(const Warp& warp, const Constant& constant) {
    switch (constant.bytes) {
      case 0:
        Predicate(warp, constant.reg) = static_cast<uint32_t>(constant.value);
        break;
      case 1:
        SetAll(warp, constant.reg, static_cast<uint8_t>(constant.value));
        break;
      case 2:
        SetAll(warp, constant.reg, static_cast<uint16_t>(constant.value));
        break;
      case 4:
        SetAll(warp, constant.reg, static_cast<uint32_t>(constant.value));
        break;
      default:
        SetAll(warp, constant.reg, constant.value);
        break;
    }
  }

  // False with failed_ set.
  bool RunBlock() {
    for (uint64_t rounds = 0;; ++rounds) {
      bool ran = false;
      const size_t first = random_.Below(warps_.size());
      for (size_t k = 0; k < warps_.size(); ++k) {
        Warp& warp = warps_[(first + k) % warps_.size()];
        if (warp.state != WarpState::kReady) continue;
        ran = true;
        RunSlice(&warp, 64 + static_cast<unsigned>(random_.Below(4096)));
        if (!warp.error.empty()) {
          failed_ = &warp;
          return false;
        }
      }
      if (!ran && !ReleaseBarrier()) return failed_ == nullptr;
      // A kernel may wait for another process.
      if (rounds % 64 == 63) std::this_thread::yield();
    }
  }

  // With all warps at a barrier or at their end: lets those at a barrier go on. False if all have ended, or with
  // failed_.
  bool ReleaseBarrier() {
    Warp* waiting = nullptr;
    for (Warp& warp : warps_) {
      if (warp.state == WarpState::kBarrier) waiting = &warp;
    }
    if (waiting == nullptr) return false;
    for (const Warp& warp : warps_) {
      if (warp.state == WarpState::kDone || warp.barrier != waiting->barrier) {
        failed_ = waiting;
        const char* const what = warp.state == WarpState::kDone ? " has ended" : " waits at another barrier";
        waiting->error = "a barrier for all threads, but warp " + std::to_string(warp.number) + what;
        waiting->active = waiting->lanes;
        return false;
      }
    }
    for (Warp& warp : warps_) warp.state = WarpState::kReady;
    return true;
  }

  // Lanes that differ in their path run in turns: those at the earliest instruction first, so that they meet again
  // where the paths join; sometimes the others, since lanes may wait for each other.
  void RunSlice(Warp* const warp, unsigned instructions) {
    const Instruction* const code = kernel_.code.data();
    const bool keep_path = !warp->others.empty() && random_.Below(4) == 0;
    if (keep_path) TakeAnotherPath(warp);
    for (; instructions > 0; --instructions) {
      if (warp->path == 0 && !ChoosePath(warp)) return;
      const Instruction& instruction = code[warp->pc];
      warp->active = warp->path & (Predicate(*warp, instruction.guard) ^ instruction.guard_flip);
      ++warp->pc;
      if (warp->active != 0) {
        instruction.run(*warp, instruction);
        if (warp->interrupted && !GoOn(warp)) return;
      }
      if (!warp->others.empty()) Regroup(warp, keep_path);
    }
  }

  // After an interruption. False if the warp stops.
  static bool GoOn(Warp* warp) {
    warp->interrupted = false;
    if (!warp->blocked) return false;
    warp->blocked = false;
    if (warp->active != warp->path) {
      Fail(*warp, "the guard leaves out lanes that the instruction waits for");
      return false;
    }
    warp->others.push_back({warp->pc - 1, warp->path, true});
    warp->path = 0;
    return ChoosePath(warp);
  }

  // Changes to a path that can go on, if there is one.
  void TakeAnotherPath(Warp* warp) {
    const size_t count = warp->others.size(), first = random_.Below(count);
    for (size_t k = 0; k < count && warp->path != 0; ++k) {
      Path& other = warp->others[(first + k) % count];
      if (other.waiting) continue;
      const Path mine{warp->pc, warp->path, false};
      warp->pc = other.pc;
      warp->path = other.lanes;
      other = mine;
      return;
    }
  }

  // Joins paths that have met, and goes on with the earliest.
  static void Regroup(Warp* warp, bool keep_path) {
    if (warp->path == 0) {
      ChoosePath(warp);
      return;
    }
    int earliest = warp->pc;
    for (size_t k = 0; k < warp->others.size();) {
      const Path& other = warp->others[k];
      if (other.pc == warp->pc) {
        warp->path |= other.lanes;
        warp->others.erase(warp->others.begin() + static_cast<ptrdiff_t>(k));
        continue;
      }
      if (!other.waiting) earliest = std::min(earliest, other.pc);
      ++k;
    }
    if (earliest == warp->pc || keep_path) return;
    warp->others.push_back({warp->pc, warp->path, false});
    warp->path = 0;
    ChoosePath(warp);
  }

  // Makes the earliest path the present one. False if the warp has ended, or with an error if all paths wait.
  static bool ChoosePath(Warp* warp) {
    if (warp->others.empty()) {
      warp->state = WarpState::kDone;
      return false;
    }
    const Path* best = nullptr;
    for (const Path& other : warp->others) {
      if (!other.waiting && (best == nullptr || other.pc < best->pc)) best = &other;
    }
    if (best == nullptr) {
      warp->pc = warp->others.front().pc + 1;
      warp->active = warp->others.front().lanes;
      Fail(*warp, "lanes of a warp wait for each other at different instructions");
      return false;
    }
    warp->pc = best->pc;
    warp->path = best->lanes;
    warp->others.erase(warp->others.begin() + (best - warp->others.data()));
    return true;
  }

  std::string Report() const {
    char place[160];
    snprintf(place, sizeof(place), "block (%u,%u,%u), warp %d, lanes 0x%08x: ", block_.index.x, block_.index.y,
             block_.index.z, failed_->number, failed_->active);
    std::string text = "kernel " + kernel_.name + ", " + place + failed_->error;
    const Statement* const source = kernel_.code[static_cast<size_t>(std::max(failed_->pc - 1, 0))].source;
    if (source != nullptr) text += ", at: " + source->text + " (line " + std::to_string(source->line) + ")";
    return text;
  }

  const Kernel& kernel_;
  const unsigned threads_;
  Random random_;
  Garbage arguments_;
  Garbage shared_;
  Garbage local_;
  KnownRanges known_;
  Grid grid_;
  Block block_;
  std::vector<Garbage> registers_;  // of each warp
  std::vector<std::vector<char>> initial_registers_;
  std::vector<Warp> warps_;
  Warp* failed_ = nullptr;
};

// "" or why the launch is refused before a thread runs.
std::string Refusal(const Kernel& kernel, Dim grid, Dim block, unsigned dynamic_shared, size_t argument_bytes) {
  if (!kernel.refusals.empty()) {
    std::string text = "not understood: " + kernel.refusals[0];
    const size_t more = kernel.refusals.size() - 1;
    return more == 0 ? text : text + " and " + std::to_string(more) + " more";
  }
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  const Dim& required = kernel.required_block;
  if (threads == 0 || uint64_t{grid.x} * grid.y * grid.z == 0) return "a grid or a block without threads";
  if (threads > kernel.maximal_threads) return std::to_string(threads) + " threads in a block are too many";
  if (required.x != 0 && (required.x != block.x || required.y != block.y || required.z != block.z)) {
    return "a block of another size than .reqntid";
  }
  if (argument_bytes != kernel.parameter_bytes) {
    return std::to_string(argument_bytes) + " bytes of arguments instead of " + std::to_string(kernel.parameter_bytes);
  }
  constexpr size_t kMaximalShared = 227 * 1024;
  const size_t shared = kernel.shared_bytes + dynamic_shared;
  return shared > kMaximalShared ? std::to_string(shared) + " bytes of shared memory are too many" : "";
}

}  // namespace

std::string Launch(const Kernel& kernel, Dim grid, Dim block, unsigned dynamic_shared,
                   const std::vector<char>& arguments) {
  const std::string refusal = Refusal(kernel, grid, block, dynamic_shared, arguments.size());
  if (!refusal.empty()) return "kernel " + kernel.name + ": " + refusal;
  return Launcher(kernel, grid, block, dynamic_shared, arguments).Run();
}

}  // namespace ptx
