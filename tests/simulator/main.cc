// Runs seeds, each in a process of its own, and says how to run a failing one again.
//
//   simulator [--first N] [--seeds N | --seconds N] [--replay] [--pes N] [--quiet | --verbose]
//
// --replay: each seed twice, whose traces must be equal. --pes: one large job instead.
#include <poll.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "tests/runtime/observe/temporary_directory.h"
#include "tests/simulator/plan.h"
#include "tests/simulator/simulated_job.h"

namespace xla_shmem::simulator {
namespace {

struct Arguments {
  uint64_t first = 1;
  uint64_t seeds = 100;
  double seconds = 0;
  bool replay = false;
  bool quiet = false;
  bool verbose = false;
  int pes = 0;
};

double RealSeconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Plan PlanOf(const Arguments& arguments, uint64_t seed) {
  return arguments.pes > 0 ? LargePlan(seed, arguments.pes) : DrawPlan(seed);
}

// Removes it in a child: this process must allocate and free nothing between runs, which would move what they allocate.
void Remove(const std::string& directory) {
  const pid_t child = fork();
  if (child == 0) {
    std::error_code ignored;
    std::filesystem::remove_all(directory, ignored);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

// In a child, so that one run knows nothing of the others. False if it failed. `directory`: for its records.
bool RunSeed(const Arguments& arguments, uint64_t seed, const std::string& directory, Report* report) {
  mkdir(directory.c_str(), 0700);
  int channel[2];
  if (pipe(channel) != 0) abort();
  fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    // A run that never reaches a point ends, by its own processor time or asleep.
    const rlimit processor_seconds = {60, 60};
    setrlimit(RLIMIT_CPU, &processor_seconds);
    alarm(600);
    Plan plan = PlanOf(arguments, seed);
    plan.verbose = arguments.verbose;
    plan.record_directory = directory;
    const Report done = RunPlan(plan);
    if (write(channel[1], &done, sizeof(done)) != sizeof(done)) _exit(2);
    _exit(0);
  }
  close(channel[1]);
  const bool complete = read(channel[0], report, sizeof(*report)) == sizeof(*report);
  close(channel[0]);
  int status = 0;
  waitpid(child, &status, 0);
  Remove(directory);
  if (complete && WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
  if (WIFSIGNALED(status)) fprintf(stderr, "ended by signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return false;
}

int Main(const Arguments& arguments) {
  const double begin = RealSeconds();
  const observe::TemporaryDirectory records;
  const std::string directory = records.path() + "/run";
  uint64_t seed = arguments.first, steps = 0;
  int finished = 0, failed = 0;
  const auto more = [&] {
    return arguments.seconds > 0 ? RealSeconds() - begin < arguments.seconds : seed < arguments.first + arguments.seeds;
  };
  for (; more(); ++seed) {
    Report report;
    bool passed = RunSeed(arguments, seed, directory, &report);
    if (passed && arguments.replay) {
      Report again;
      passed = RunSeed(arguments, seed, directory, &again);
      if (passed && (again.trace != report.trace || again.steps != report.steps)) {
        fprintf(stderr, "two runs of one seed differ\n");
        passed = false;
      }
    }
    if (!passed) {
      const Plan plan = PlanOf(arguments, seed);
      fprintf(stderr, "seed %llu failed: %s\nagain: simulator --first %llu --seeds 1\n",
              static_cast<unsigned long long>(seed), Describe(plan).c_str(), static_cast<unsigned long long>(seed));
      return 1;
    }
    steps += report.steps;
    finished += report.finished;
    failed += report.failed;
  }
  if (!arguments.quiet) {
    printf("%llu seeds, %llu steps, %d operations gave right results, %d an error after a fault, %.0f s\n",
           static_cast<unsigned long long>(seed - arguments.first), static_cast<unsigned long long>(steps), finished,
           failed, RealSeconds() - begin);
  }
  return 0;
}

}  // namespace
}  // namespace xla_shmem::simulator

int main(int argc, char** argv) {
  // Addresses equal from run to run, so that nothing can depend on them.
  const int persona = personality(0xffffffff);
  if (persona >= 0 && (persona & ADDR_NO_RANDOMIZE) == 0 && personality(persona | ADDR_NO_RANDOMIZE) >= 0) {
    execv("/proc/self/exe", argv);
  }
  xla_shmem::simulator::Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const auto value = [&]() -> std::string {
      if (++i < argc) return argv[i];
      fprintf(stderr, "%s needs a value\n", option.c_str());
      exit(2);
    };
    if (option == "--first") {
      arguments.first = std::stoull(value());
    } else if (option == "--seeds") {
      arguments.seeds = std::stoull(value());
    } else if (option == "--seconds") {
      arguments.seconds = std::stod(value());
    } else if (option == "--replay") {
      arguments.replay = true;
    } else if (option == "--verbose") {
      arguments.verbose = true;
    } else if (option == "--quiet") {
      arguments.quiet = true;
    } else if (option == "--pes") {
      arguments.pes = std::stoi(value());
    } else {
      fprintf(stderr,
              "usage: simulator [--first N] [--seeds N | --seconds N] [--replay] [--pes N] [--quiet | --verbose]\n");
      return 2;
    }
  }
  return xla_shmem::simulator::Main(arguments);
}
