#include "xla_patch/nvshmem/gpu/start_limit.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace xla_shmem::gpu {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kPollInterval{1000};

void PrintAndMaybeExit(StartLimit::Event event, const std::string& reason) {
  const bool stuck = event == StartLimit::Event::kStuck;
  fprintf(stderr, "xla_shmem: %s%s\n", reason.c_str(), stuck ? "; the process ends" : " and still waits");
  fflush(stderr);
  if (stuck) std::_Exit(70);
}

}  // namespace

StartLimit::StartLimit(int processes, milliseconds patience, ReadOutcome outcome, OnEvent on_event)
    : processes_(processes),
      patience_(patience),
      outcome_(std::move(outcome)),
      on_event_(on_event ? std::move(on_event) : PrintAndMaybeExit),
      thread_([this] { Watch(); }) {}

StartLimit::~StartLimit() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StartLimit::Watch() {
  if (EndsWithin(patience_)) return;
  bool has_failed = false;
  on_event_(Event::kLate, Describe(&has_failed));
  const auto give_up = steady_clock::now() + (kLimit - 1) * patience_;
  while (!EndsWithin(std::min(kPollInterval, patience_ / 10))) {
    const std::string reason = Describe(&has_failed);
    if (has_failed || steady_clock::now() >= give_up) return on_event_(Event::kStuck, reason);
  }
}

bool StartLimit::EndsWithin(milliseconds time) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, time, [this] { return ended_; });
}

std::string StartLimit::Describe(bool* has_failed) const {
  std::string failures, waiting;
  for (int process = 0; process < processes_; ++process) {
    const std::optional<Status> outcome = outcome_(process);
    const std::string number = std::to_string(process);
    if (!outcome.has_value()) {
      waiting += (waiting.empty() ? "" : ", ") + number;
    } else if (!outcome->ok()) {
      failures += (failures.empty() ? "process " : "; process ") + number + ": " + outcome->message();
    }
  }
  *has_failed = !failures.empty();
  char seconds[32];
  snprintf(seconds, sizeof(seconds), "%g", static_cast<double>(patience_.count()) / 1000);
  return "NVSHMEM has not started within " + std::string(seconds) + " s; " +
         (*has_failed ? failures
                      : "processes " + waiting + " have not finished, NVSHMEM_DEBUG=INFO shows their progress");
}

}  // namespace xla_shmem::gpu
