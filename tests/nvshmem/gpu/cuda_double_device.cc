#include "tests/nvshmem/gpu/cuda_double_device.h"

#include <unistd.h>

#include <cstring>

#include "xla_patch/nvshmem/gpu/kernels/arguments.h"

namespace xla_shmem::testing {

DoubleLaunch::DoubleLaunch(const Kernel* kernel, const void* argument, unsigned blocks, bool* trapped)
    : kernel_(kernel), argument_(kernel->argument_bytes), blocks_(blocks), trapped_(trapped) {
  if (!argument_.empty()) memcpy(argument_.data(), argument, argument_.size());
}

DoubleLaunch::~DoubleLaunch() { End(); }

bool DoubleLaunch::Poll() {
  if (!kernel_->waits) {
    for (unsigned block = 0; block < blocks_; ++block) {
      if (!kernel_->run(argument_.data(), block, blocks_)) *trapped_ = true;
    }
    return true;
  }
  if (threads_.empty()) {
    running_.store(blocks_);
    for (unsigned block = 0; block < blocks_; ++block) {
      threads_.emplace_back([this, block] {
        if (!kernel_->run(argument_.data(), block, blocks_)) ended_by_trap_.store(true);
        running_.fetch_sub(1);
      });
    }
  }
  if (running_.load() != 0) return false;
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  if (ended_by_trap_.load()) *trapped_ = true;
  return true;
}

void DoubleLaunch::End() {
  if (threads_.empty()) return;
  gpu::ExchangeArguments arguments;  // both kernels that wait begin with them
  memcpy(&arguments, argument_.data(), sizeof(arguments));
  __atomic_store_n(arguments.lanes.progress + gpu::kOrder, gpu::kOrderTrap, __ATOMIC_RELEASE);
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool CudaDouble::Device::RunInRandomOrder() {
  bool moved = false;
  const size_t first = random() % streams.size();
  // One stream stands still for a while, so that the others get ahead of it as far as they may.
  if (random() % 256 == 0) slow = random() % streams.size();
  for (size_t i = 0; i < streams.size() && !trapped; ++i) {
    const size_t chosen = (first + i) % streams.size();
    if (chosen != slow || random() % 64 == 0) moved |= streams[chosen].Step();
  }
  return moved;
}

bool CudaDouble::Device::RunQueue() {
  if (queue.empty() || !queue.front()->Step()) return false;
  queue.pop_front();
  return true;
}

void CudaDouble::Device::Run() {
  for (;;) {
    bool moved = false;
    bool idle = true;
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (stop) return;
      if (!paused && !streams.empty()) {
        moved = one_queue ? RunQueue() : RunInRandomOrder();
        for (const Stream& stream : streams) idle &= stream.Idle();
      }
      if (trapped) {
        for (DoubleLaunch& launch : launches) launch.End();
        for (Stream& stream : streams) stream.Abandon();
        queue.clear();
      }
    }
    // Several processes may have a double each, most of the time with nothing to do.
    if (!moved) usleep(idle ? 200 : 20);
  }
}

}  // namespace xla_shmem::testing
