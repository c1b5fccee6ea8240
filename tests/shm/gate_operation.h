// An operation that finishes when a word is set, and an object that waits for a completion.
#ifndef XLA_SHMEM_TESTS_SHM_GATE_OPERATION_H_
#define XLA_SHMEM_TESTS_SHM_GATE_OPERATION_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "xla_patch/shm/operation.h"

namespace xla_shmem::testing {

class GateOperation : public Operation {
 public:
  explicit GateOperation(const std::atomic<uint64_t>* gate, int waits_for = -1) : gate_(gate), waits_for_(waits_for) {}
  ~GateOperation() override {
    if (destroyed != nullptr) *destroyed = true;
  }
  bool Poll() override { return gate_->load(std::memory_order_acquire) != 0; }
  std::string Describe(const std::set<int>& pes) const override {
    std::string text = "gate at " + std::to_string(gate_->load());
    for (const int pe : pes) text += ", not PE " + std::to_string(pe);
    return text;
  }
  std::set<int> WaitsFor() const override {
    if (waits_for_ < 0 || gate_->load(std::memory_order_acquire) != 0) return {};
    return {waits_for_};
  }
  bool is_of_default_backend() const override { return of_default_backend; }
  void Abandon() override {
    if (abandoned != nullptr) *abandoned = true;
  }

  std::atomic<bool>* destroyed = nullptr;
  std::atomic<bool>* abandoned = nullptr;
  bool of_default_backend = false;

 private:
  const std::atomic<uint64_t>* gate_;
  const int waits_for_;
};

class Outcome {
 public:
  // Notifies with the lock held, because the waiter may destroy this object as soon as it wakes.
  void Set(const std::string& text) {
    std::lock_guard<std::mutex> lock(mutex_);
    text_ = text;
    set_ = true;
    changed_.notify_all();
  }
  // Returns the text of Set, or "nothing came" after 30 s.
  std::string Get() {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return set_; }) ? text_ : "nothing came";
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
  std::string text_;
};

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_SHM_GATE_OPERATION_H_
