// Memory that processes of one job share by name, and waits for what they write there: for library doubles.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>

namespace emulator {

// Maps a shared-memory object; null on failure. Each process may come first. New bytes are zero.
inline void* MapShared(const std::string& name, size_t bytes) {
  const int file = shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
  if (file < 0) return nullptr;
  const bool sized = ftruncate(file, static_cast<off_t>(bytes)) == 0;
  void* memory = sized ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  close(file);
  return memory == MAP_FAILED ? nullptr : memory;
}

// Repeats `reached` until it holds; false after so many seconds.
template <typename Reached>
bool WaitFor(int64_t seconds, Reached reached) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (!reached()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

}  // namespace emulator
