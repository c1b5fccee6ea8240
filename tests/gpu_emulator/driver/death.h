// For tests: what a process says when it ends.
//
//   DYING_TEST_CASE("frees twice") { ... }
//   TEST_CASE("...") { CHECK(LastWords("frees twice").find("...") != std::string::npos); }
#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

// A case that runs only in a process of its own, through LastWords. doctest divides its name at commas.
#define DYING_TEST_CASE(name) TEST_CASE("process that " name* doctest::skip())

namespace emulator {

// Runs the case in a new process of this program, and returns what it wrote to stderr; "" if it came to its end.
inline std::string LastWords(const std::string& name) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return "";
  const std::string filter = "--test-case=process that " + name;
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    execl("/proc/self/exe", "test", filter.c_str(), "--no-skip", nullptr);
    _exit(127);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? "" : text;
}

inline bool Dies(const std::string& name, const std::string& message) {
  const std::string words = LastWords(name);
  const bool found = words.find(message) != std::string::npos;
  if (!found) MESSAGE(words);
  return found;
}

}  // namespace emulator
