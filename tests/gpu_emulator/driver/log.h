// The log of the emulator, and the refusal of calls that have no behaviour.
#pragma once

#include <string>

namespace emulator {

// Writes a line to the file that GPU_EMULATOR_LOG names ("-": stderr); nothing without that variable.
void Log(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Writes a line to stderr and to the log.
void Complain(const char* format, ...) __attribute__((format(printf, 1, 2)));

// True with GPU_EMULATOR_TRACE: each call is logged, not only the refused ones.
bool Tracing();

}  // namespace emulator

#define TRACE(...)                                           \
  do {                                                       \
    if (::emulator::Tracing()) ::emulator::Log(__VA_ARGS__); \
  } while (false)

// Called by the generated stubs: says once for each name that the emulator has no behaviour for it.
extern "C" __attribute__((visibility("hidden"))) int gpu_emulator_refused(const char* name);
