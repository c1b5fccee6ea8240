// What is known of the other processes of a job from their records.
#include "xla_patch/runtime/observe/recorded_peers.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "tests/runtime/observe/temporary_directory.h"
#include "xla_patch/runtime/observe/flight_recorder.h"

namespace xla_shmem::observe {
namespace {

// A process that records as process 1 and then stays, or exits with `code`.
pid_t StartPeer(const std::string& directory, int code) {
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto recorder = FlightRecorder::Create(directory, 1, {0, 1}, {1});
    if (code >= 0) (*recorder)->Close(code);
    if (write(ready[1], "r", 1) != 1 || code >= 0) _exit(code);
    while (true) pause();
  }
  char letter;
  REQUIRE(read(ready[0], &letter, 1) == 1);
  close(ready[0]);
  close(ready[1]);
  return child;
}

std::string End(pid_t child, int signal) {
  if (signal != 0) kill(child, signal);
  waitpid(child, nullptr, 0);
  return "process 1 (pid " + std::to_string(child) + ")";
}

TEST_CASE("A process that was killed, or that exited with an error, is lost") {
  const TemporaryDirectory directory;
  RecordedPeers peers(directory.path(), {0, 1}, 0);
  CHECK(peers.Look().late == "; process 1 has begun no collective");
  const pid_t child = StartPeer(directory.path(), -1);
  CHECK(peers.Look().lost == "");
  CHECK(peers.Look().late == "; process 1 (pid " + std::to_string(child) + ") is running");
  const std::string who = End(child, SIGKILL);
  CHECK(peers.Look().lost == who + " has exited");

  const TemporaryDirectory other;
  const std::string failed = End(StartPeer(other.path(), 3), 0);
  CHECK(RecordedPeers(other.path(), {0, 1}, 0).Look().lost == failed + " has exited with code 3");
}

TEST_CASE("A process that has ended well may have done its part") {
  const TemporaryDirectory directory;
  const std::string who = End(StartPeer(directory.path(), 0), 0);
  const RecordedPeers::Facts facts = RecordedPeers(directory.path(), {0, 1}, 0).Look();
  CHECK(facts.lost == "");
  CHECK(facts.late == "; " + who + " has exited with code 0");
}

TEST_CASE("A process is lost once it has been stopped for long, and not before") {
  const TemporaryDirectory directory;
  const pid_t child = StartPeer(directory.path(), -1);
  RecordedPeers patient(directory.path(), {0, 1}, 0), hasty(directory.path(), {0, 1}, 0, std::chrono::milliseconds(50));
  kill(child, SIGSTOP);
  REQUIRE(waitpid(child, nullptr, WUNTRACED) == child);
  for (int look = 0; look < 2; ++look) {
    CHECK(patient.Look().lost == "");
    CHECK(hasty.Look().lost ==
          (look == 0 ? "" : "process 1 (pid " + std::to_string(child) + ") has been stopped for long"));
    usleep(60000);
  }
  const std::string who = End(child, SIGKILL);
  CHECK(patient.Look().late == "; " + who + " has exited");
}

TEST_CASE("Without records nothing is known") { CHECK(RecordedPeers("", {0, 1}, 0).Look().late == ""); }

}  // namespace
}  // namespace xla_shmem::observe
