#include "driver/handles.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>

#include "driver/log.h"
#include "driver/memory.h"
#include "driver/objects.h"
#include "driver/scheduler.h"

namespace emulator {
namespace {

constexpr const char* kNames[] = {"context", "stream", "event", "module", "function"};

// The call that destroyed a handle; empty while it is live. Requires Global().
std::map<std::pair<HandleKind, const void*>, std::string>& Handles() {
  static auto* handles = new std::map<std::pair<HandleKind, const void*>, std::string>;
  return *handles;
}

}  // namespace

void HandleCreated(HandleKind kind, const void* handle) {
  const Lock lock(Global());
  Handles()[{kind, handle}].clear();
}

void HandleDestroyed(HandleKind kind, const void* handle, const char* call) {
  const Lock lock(Global());
  Handles()[{kind, handle}] = call;
}

bool IsLive(HandleKind kind, const void* handle, const char* call) {
  const Lock lock(Global());
  const auto at = Handles().find({kind, handle});
  if (at != Handles().end() && at->second.empty()) return true;
  const char* name = kNames[static_cast<int>(kind)];
  if (at == Handles().end()) {
    Complain("%s: %p is no %s of this process", call, handle, name);
  } else {
    Complain("%s: %s %p was destroyed before, by %s", call, name, handle, at->second.c_str());
  }
  return false;
}

void Die(const char* format, ...) {
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  Complain("%s", text);
  abort();
}

void FailContext(const std::string& why) {
  Complain("%s", why.c_str());
  SetFailed(WorkingDevice());
  WakeStreams();
}

}  // namespace emulator
