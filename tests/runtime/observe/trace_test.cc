#include "xla_patch/runtime/observe/trace.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "doctest/doctest.h"
#include "tests/runtime/observe/temporary_directory.h"
#include "tests/types/value_of.h"

namespace xla_shmem::observe {
namespace {

TEST_CASE("processes append their PEs and collectives to one file") {
  const TemporaryDirectory directory;
  for (int process = 0; process < 2; ++process) {
    const auto trace = testing::ValueOf(Trace::Open(directory.File("trace.json"), process, {process}));
    const int track = trace->Begin(process);
    trace->End(process, track, "all-reduce", "jit_f/\"a\"", (uint64_t{3} << 32) + 1, 1'500, {64, 4'000, 1'000, true});
  }
  const std::string text = directory.Read("trace.json");
  CHECK(text.rfind("[\n", 0) == 0);
  CHECK(text.find("[\n", 1) == std::string::npos);
  CHECK(text.find(R"json({"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "PE 1 (process 1)"}},)json") !=
        std::string::npos);
  CHECK(text.find(R"json({"name": "jit_f/\"a\"", "cat": "all-reduce", "ph": "X", "pid": 0, "tid": 0, "ts": 1.500, )json"
                  R"json("dur": 4.000, "args": {"bytes": 64, "run": 3, "in_run": 1, "waited_us": 3.000, )json"
                  R"json("moved_us": 1.000, "inline": true}},)json"
                  "\n") != std::string::npos);
}

TEST_CASE("collectives that overlap are on different tracks of their PE, others on the first") {
  const TemporaryDirectory directory;
  const auto trace = testing::ValueOf(Trace::Open(directory.File("t"), 0, {0, 1}));
  CHECK(trace->Begin(0) == 0);
  CHECK(trace->Begin(0) == 1);
  CHECK(trace->Begin(1) == 0);
  trace->End(0, 0, "op", "n", 0, 0, {});
  CHECK(trace->Begin(0) == 0);
}

TEST_CASE("a file that cannot be written is named") {
  CHECK(Trace::Open("/no/such/place/trace.json", 0, {0}).message() ==
        "cannot write /no/such/place/trace.json: No such file or directory");
}

TEST_CASE("A trace is for its user alone") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("trace.json");
  const mode_t before = umask(0);  // so that the mode is the one that Open asks for
  REQUIRE(Trace::Open(path, 0, {0}).ok());
  umask(before);
  struct stat status;
  REQUIRE(stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("A trace goes into no file with a second name, and into none of another user") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("trace.json");
  std::ofstream(directory.File("other")) << "mine";
  REQUIRE(link(directory.File("other").c_str(), path.c_str()) == 0);
  const std::string refusal = "cannot write " + path + ": it is not a regular file of user";
  CHECK(Trace::Open(path, 0, {0}).message().rfind(refusal, 0) == 0);
  CHECK(directory.Read("other") == "mine");
  if (getuid() != 0) return;  // only root can make files of two users
  REQUIRE(unlink(path.c_str()) == 0);
  std::ofstream(path) << "theirs";
  REQUIRE(chown(path.c_str(), 65534, 65534) == 0);
  CHECK(Trace::Open(path, 0, {0}).message().rfind(refusal, 0) == 0);
  CHECK(directory.Read("trace.json") == "theirs");
}

TEST_CASE("A trace never goes through a symbolic link") {
  const TemporaryDirectory directory;
  const std::string link = directory.File("trace.json");
  REQUIRE(symlink(directory.File("target").c_str(), link.c_str()) == 0);
  std::ofstream(directory.File("target")) << "mine";
  CHECK(Trace::Open(link, 0, {0}).message() == "cannot write " + link + ": Too many levels of symbolic links");
  CHECK(directory.Read("target") == "mine");
}

}  // namespace
}  // namespace xla_shmem::observe
