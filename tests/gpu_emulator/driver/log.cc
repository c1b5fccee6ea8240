#include "driver/log.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace emulator {
namespace {

FILE* LogFile() {
  static FILE* file = [] {
    const char* path = getenv("GPU_EMULATOR_LOG");
    if (path == nullptr) return static_cast<FILE*>(nullptr);
    FILE* opened = strcmp(path, "-") == 0 ? stderr : fopen(path, "a");
    if (opened != nullptr) setvbuf(opened, nullptr, _IOLBF, 1 << 16);
    return opened;
  }();
  return file;
}

void Write(FILE* file, const char* format, va_list arguments) {
  char text[1024];
  vsnprintf(text, sizeof(text), format, arguments);
  fprintf(file, "gpu_emulator[%d]: %s\n", getpid(), text);
}

}  // namespace

void Log(const char* format, ...) {
  FILE* file = LogFile();
  if (file == nullptr) return;
  va_list arguments;
  va_start(arguments, format);
  Write(file, format, arguments);
  va_end(arguments);
}

void Complain(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Write(stderr, format, arguments);
  va_end(arguments);
  FILE* file = LogFile();
  if (file == nullptr || file == stderr) return;
  va_start(arguments, format);
  Write(file, format, arguments);
  va_end(arguments);
}

bool Tracing() {
  static const bool on = getenv("GPU_EMULATOR_TRACE") != nullptr;
  return on;
}

}  // namespace emulator
