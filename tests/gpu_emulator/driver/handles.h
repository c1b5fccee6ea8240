// Which handles are live, so that a destroyed one is told from a valid one.
#pragma once

#include <cuda.h>

#include <string>

namespace emulator {

enum class HandleKind { kContext, kStream, kEvent, kModule, kFunction };

void HandleCreated(HandleKind kind, const void* handle);
void HandleDestroyed(HandleKind kind, const void* handle, const char* call);

// True for a live handle. Otherwise says on stderr what `call` was given, and which call destroyed it.
bool IsLive(HandleKind kind, const void* handle, const char* call);

// Prints a message and ends the process (abort), as a fault in a program of the GPU's user deserves.
[[noreturn]] void Die(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Makes the context of the device whose work this thread runs fail, as an error of a kernel does on hardware: calls
// return an error from now on. Says why.
void FailContext(const std::string& why);

}  // namespace emulator
