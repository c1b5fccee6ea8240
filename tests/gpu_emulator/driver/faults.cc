#include "driver/faults.h"

#include <signal.h>
#include <ucontext.h>

#include <mutex>
#include <string>

#include "driver/device_view.h"
#include "driver/log.h"
#include "driver/memory.h"
#include "driver/objects.h"
#include "driver/scheduler.h"

namespace emulator {
namespace {

struct sigaction before[NSIG];

const char* NameOfAccess(const void* context) {
#if defined(__x86_64__)
  constexpr greg_t kWrite = 2;
  const auto* state = static_cast<const ucontext_t*>(context);
  return (state->uc_mcontext.gregs[REG_ERR] & kWrite) != 0 ? "writes" : "reads";
#else
  static_cast<void>(context);
  return "uses";
#endif
}

std::string Explain(uint64_t address, const void* context) {
  // The memory's own lock may be held by another thread, which then waits for ever: the process ends anyway.
  std::unique_lock<std::recursive_mutex> lock(Global(), std::try_to_lock);
  const std::string access = NameOfAccess(context);
  if (IsDeviceAddress(address)) {
    return "host code " + access + " device memory, which hardware does not allow: " + Describe(address);
  }
  const uint64_t device_address = address - kDeviceViewOffset;
  const std::string work = *RunningWork() == '\0' ? "GPU work" : RunningWork();
  if (IsDeviceAddress(device_address))
    return work + " " + access + " memory without a right to it: " + Describe(device_address);
  if (Find(address) != Ranges().end() || Describe(address).find(" freed") != std::string::npos) {
    return work + " " + access + " pinned memory without a right to it: " + Describe(address);
  }
  return "";
}

void OnFault(int signal_number, siginfo_t* info, void* context) {
  const std::string text = Explain(reinterpret_cast<uint64_t>(info->si_addr), context);
  if (!text.empty()) Complain("%s", text.c_str());
  // The instruction runs again, and faults in the hands of the handler that was there before.
  sigaction(signal_number, &before[signal_number], nullptr);
}

void Install(int signal_number) {
  struct sigaction now{};
  sigaction(signal_number, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == OnFault) return;
  before[signal_number] = now;
  struct sigaction ours{};
  ours.sa_sigaction = OnFault;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  sigaction(signal_number, &ours, nullptr);
}

}  // namespace

void InstallFaultHandler() {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  Install(SIGSEGV);
  Install(SIGBUS);
}

}  // namespace emulator
