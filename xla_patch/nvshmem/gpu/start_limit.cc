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
  on_event_(Event::kLate, Describe());
  const auto give_up = steady_clock::now() + (kLimit - 1) * patience_;
  while (!EndsWithin(std::min(kPollInterval, patience_ / 10))) {
    if (Failures().empty() && steady_clock::now() < give_up) continue;
    return on_event_(Event::kStuck, Describe());
  }
}

bool StartLimit::EndsWithin(milliseconds time) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, time, [this] { return ended_; });
}

std::string StartLimit::Failures() const {
  std::string failures;
  for (int process = 0; process < processes_; ++process) {
    const std::optional<Status> outcome = outcome_(process);
    if (!outcome.has_value() || outcome->ok()) continue;
    failures += (failures.empty() ? "" : "; ") + ("process " + std::to_string(process)) + ": " + outcome->message();
  }
  return failures;
}

std::string StartLimit::Describe() const {
  std::string why = Failures();
  if (why.empty()) {
    std::string waiting;
    for (int process = 0; process < processes_; ++process) {
      if (!outcome_(process).has_value()) waiting += (waiting.empty() ? "" : ", ") + std::to_string(process);
    }
    why = "processes " + waiting + " have not finished, NVSHMEM_DEBUG=INFO shows their progress";
  }
  char seconds[32];
  snprintf(seconds, sizeof(seconds), "%g", static_cast<double>(patience_.count()) / 1000);
  return "NVSHMEM has not started within " + std::string(seconds) + " s; " + why;
}

}  // namespace xla_shmem::gpu
