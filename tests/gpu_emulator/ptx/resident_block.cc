#include "ptx/resident_block.h"

#include <algorithm>
#include <cstdio>

namespace ptx {
namespace {

template <typename Value>
void SetAll(const Warp& warp, uint32_t reg, Value value) {
  std::fill_n(Lane<Value>(warp, reg), kLanes, value);
}

void SetConstant(const Warp& warp, const Constant& constant) {
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

// Makes the earliest path the present one. False if the warp has ended, or with an error if all paths wait.
bool ChoosePath(Warp* warp) {
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

// After an interruption. False if the warp stops.
bool GoOn(Warp* warp) {
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

// Joins paths that have met, and goes on with the earliest.
void Regroup(Warp* warp, bool keep_path) {
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

}  // namespace

ResidentBlock::ResidentBlock(const Kernel* kernel, const Grid* grid, size_t dynamic_shared, Random* random)
    : kernel_(*kernel),
      grid_(*grid),
      threads_(grid->threads.x * grid->threads.y * grid->threads.z),
      random_(*random),
      in_flight_(random),
      shared_(kernel->shared_bytes + dynamic_shared, 1024),
      local_(AlignUp(kernel->local_bytes, 16) * AlignUp(threads_, kLanes), 256) {
  block_.in_flight = &in_flight_;
  block_.shared = shared_.data();
  block_.shared_bytes = kernel->shared_bytes + dynamic_shared;
  const unsigned count = (threads_ + kLanes - 1) / kLanes;
  warps_.resize(count);
  for (unsigned n = 0; n < count; ++n) {
    registers_.emplace_back(kernel->register_bytes, 256);
    SetUp(n);
  }
}

// Sets what does not change between blocks, and keeps the registers as they are when a block starts.
void ResidentBlock::SetUp(unsigned n) {
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

void ResidentBlock::SetRegisters(const Warp& warp) {
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

void ResidentBlock::Start(uint64_t number) {
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

void ResidentBlock::StartWarp(Warp* warp) {
  warp->alive = warp->path = warp->lanes;
  warp->pc = 0;
  warp->others.clear();
  warp->state = WarpState::kReady;
  warp->interrupted = warp->blocked = warp->sleeps = false;
  warp->carry = static_cast<uint32_t>(random_.Next());
  SetAll(*warp, kBlockX, block_.index.x);
  SetAll(*warp, kBlockY, block_.index.y);
  SetAll(*warp, kBlockZ, block_.index.z);
}

ResidentBlock::Progress ResidentBlock::Run() {
  bool ran = false, sleeps = true;
  in_flight_.DeliverSome();
  const size_t first = random_.Below(warps_.size());
  for (size_t k = 0; k < warps_.size(); ++k) {
    Warp& warp = warps_[(first + k) % warps_.size()];
    if (warp.state != WarpState::kReady) continue;
    ran = true;
    RunSlice(&warp, 64 + static_cast<unsigned>(random_.Below(4096)));
    if (!warp.error.empty()) {
      failed_ = &warp;
      return Progress::kFailed;
    }
    sleeps &= std::exchange(warp.sleeps, false);
  }
  if (ran) return sleeps ? Progress::kWaiting : Progress::kRunning;
  if (ReleaseBarrier()) return Progress::kRunning;
  in_flight_.DeliverAll();
  return failed_ == nullptr ? Progress::kDone : Progress::kFailed;
}

// With all warps at a barrier or at their end: lets those at a barrier go on. False if all have ended, or with
// failed_.
bool ResidentBlock::ReleaseBarrier() {
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
  in_flight_.Publish();
  return true;
}

// Lanes that differ in their path run in turns: those at the earliest instruction first, so that they meet again
// where the paths join; sometimes the others, since lanes may wait for each other.
void ResidentBlock::RunSlice(Warp* const warp, unsigned instructions) {
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

// Changes to a path that can go on, if there is one.
void ResidentBlock::TakeAnotherPath(Warp* warp) {
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

std::string ResidentBlock::Report() const {
  char place[160];
  snprintf(place, sizeof(place), "block (%u,%u,%u), warp %d, lanes 0x%08x: ", block_.index.x, block_.index.y,
           block_.index.z, failed_->number, failed_->active);
  std::string text = "kernel " + kernel_.name + ", " + place + failed_->error;
  const Statement* const source = kernel_.code[static_cast<size_t>(std::max(failed_->pc - 1, 0))].source;
  if (source != nullptr) text += ", at: " + source->text + " (line " + std::to_string(source->line) + ")";
  return text;
}

}  // namespace ptx
