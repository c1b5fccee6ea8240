// Launches: the blocks of a grid, one after the other; a block that waits lets others run beside it.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "ptx/aliases.h"
#include "ptx/kernel.h"
#include "ptx/ptx.h"
#include "ptx/resident_block.h"

namespace ptx {
namespace {

uint64_t NextSeed() {
  static const uint64_t seed = [] {
    const char* text = getenv("GPU_EMULATOR_SEED");
    return text == nullptr ? 1 : strtoull(text, nullptr, 10);
  }();
  static std::atomic<uint64_t> launches{0};
  return seed + launches.fetch_add(1) * 0x10001;
}

// After so many looks at the blocks, of which none has ended, another one begins. A block that waits is not seen to
// wait in each look, because it may look at its word many times before it sleeps.
constexpr int kPassesForAnotherBlock = 16;

// At most so many blocks are on the GPU at once: one for each multiprocessor of the smallest GPU that a grid of waiting
// blocks should fit.
constexpr size_t kResidentBlocks = 64;

class Launcher {
 public:
  Launcher(const Kernel& kernel, Dim grid, Dim block, unsigned dynamic_shared, const std::vector<char>& arguments)
      : kernel_(kernel), dynamic_shared_(dynamic_shared), random_(NextSeed()), arguments_(arguments.size(), 256) {
    std::copy(arguments.begin(), arguments.end(), arguments_.data());
    Aliases* const aliases = kernel.has_multimem ? &aliases_ : nullptr;
    grid_ = {&kernel, grid, block, arguments_.data(), arguments.size(), &known_, aliases};
    blocks_ = uint64_t{grid.x} * grid.y * grid.z;
    // A step without a common factor with the number of blocks comes to each of them once.
    step_ = blocks_ == 1 ? 1 : 1 + random_.Below(blocks_ - 1);
    while (std::gcd(step_, blocks_) != 1) ++step_;
    next_ = random_.Below(blocks_);
  }

  std::string Run() {
    resident_.push_back(Begin(nullptr));
    auto pause = kShortestPause;
    int passes_without_end = 0;
    for (uint64_t passes = 1; !resident_.empty(); ++passes) {
      bool all_wait = true;
      ++passes_without_end;
      for (size_t i = 0; i < resident_.size();) {
        const ResidentBlock::Progress progress = resident_[i]->Run();
        if (progress == ResidentBlock::Progress::kFailed) return resident_[i]->Report();
        all_wait &= progress == ResidentBlock::Progress::kWaiting;
        if (progress != ResidentBlock::Progress::kDone) {
          ++i;
          continue;
        }
        passes_without_end = 0;
        if (started_ < blocks_) {
          resident_[i] = Begin(std::move(resident_[i]));
        } else {
          resident_.erase(resident_.begin() + static_cast<ptrdiff_t>(i));
        }
      }
      const bool has_room = started_ < blocks_ && resident_.size() < kResidentBlocks;
      if (has_room && (all_wait || passes_without_end >= kPassesForAnotherBlock)) {
        resident_.push_back(Begin(nullptr));
        passes_without_end = 0;
      } else if (!all_wait) {
        pause = kShortestPause;
        // A kernel may wait for another process without nanosleep.
        if (passes % 64 == 0) std::this_thread::yield();
      } else if (!resident_.empty()) {
        // For another process.
        std::this_thread::sleep_for(pause);
        pause = std::min(pause * 2, kLongestPause);
      }
    }
    return "";
  }

 private:
  static constexpr std::chrono::microseconds kShortestPause{20}, kLongestPause{500};

  // Starts the next block, in the memory of one that is done if there is one.
  std::unique_ptr<ResidentBlock> Begin(std::unique_ptr<ResidentBlock> done) {
    if (done == nullptr) done = std::make_unique<ResidentBlock>(&kernel_, &grid_, dynamic_shared_, &random_);
    done->Start(next_);
    next_ = (next_ + step_) % blocks_;
    ++started_;
    return done;
  }

  const Kernel& kernel_;
  const size_t dynamic_shared_;
  Random random_;
  Garbage arguments_;
  KnownRanges known_;
  Aliases aliases_;
  Grid grid_;
  uint64_t blocks_ = 0, started_ = 0, step_ = 1, next_ = 0;
  std::vector<std::unique_ptr<ResidentBlock>> resident_;
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
