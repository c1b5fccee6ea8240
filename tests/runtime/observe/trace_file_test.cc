#include "xla_patch/runtime/observe/trace_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "tests/runtime/observe/temporary_directory.h"
#include "tests/types/value_of.h"

namespace xla_shmem::observe {
namespace {

TEST_CASE("processes append their PEs and collectives to one file") {
  const TemporaryDirectory directory;
  for (int process = 0; process < 2; ++process) {
    const auto trace = testing::ValueOf(TraceFile::Open(directory.File("trace.json"), process, {process}));
    trace->Add({1, "all-reduce", "jit_f/\"a\"", false, {}},
               {process, (uint64_t{3} << 32) + 1, 64, 1'500, 5'500, 1'000, true, std::nullopt});
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

TEST_CASE("what the default backend carries is marked, with its source line and no share of moving") {
  const TemporaryDirectory directory;
  {
    const auto trace = testing::ValueOf(TraceFile::Open(directory.File("t"), 0, {0}));
    trace->Add({1, "all-gather", "jit_f/a", false, {}, "f.py:3", true},
               {0, uint64_t{1} << 32, 64, 1'500, 5'500, std::nullopt, false, std::nullopt});
  }
  CHECK(directory.Read("t").find(R"json("args": {"bytes": 64, "run": 1, "in_run": 0, "source": "f.py:3", )json"
                                 R"json("backend": "default"}},)json") != std::string::npos);
}

// The tracks of executions from start to end, in µs, that are added in this order.
std::vector<int> TracksOf(const std::vector<Finished>& executions) {
  const TemporaryDirectory directory;
  {
    const auto trace = testing::ValueOf(TraceFile::Open(directory.File("t"), 0, {0, 1}));
    for (const Finished& execution : executions) {
      trace->Add({}, execution);
    }
  }
  const std::string text = directory.Read("t");
  const std::string key = "\"tid\": ";
  std::vector<int> tracks;
  for (size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + 1)) {
    tracks.push_back(std::stoi(text.substr(at + key.size())));
  }
  return tracks;
}

Finished From(uint64_t start_ns, uint64_t end_ns, int pe = 0) { return {pe, 0, 0, start_ns, end_ns, 0, true, {}}; }

TEST_CASE("collectives that overlap are on different tracks of their PE, others on the first") {
  CHECK(TracksOf({From(0, 10), From(10, 20), From(25, 30)}) == std::vector<int>{0, 0, 0});
  CHECK(TracksOf({From(0, 10), From(5, 15), From(15, 20)}) == std::vector<int>{0, 1, 0});
  CHECK(TracksOf({From(5, 10), From(0, 15), From(8, 20), From(15, 25)}) == std::vector<int>{0, 1, 2, 0});
  CHECK(TracksOf({From(0, 10), From(5, 15, 1)}) == std::vector<int>{0, 0});
  CHECK(TracksOf({From(0, 20), From(0, 10)}) == std::vector<int>{0, 1});  // two threads ended theirs at once
}

TEST_CASE("GPUs choose their tracks, and their waits are not known") {
  Finished execution = From(0, 10);
  execution.track = 7;
  execution.moved_ns.reset();
  CHECK(TracksOf({execution, execution}) == std::vector<int>{7, 7});
}

TEST_CASE("a file that cannot be written is named") {
  CHECK(TraceFile::Open("/no/such/place/trace.json", 0, {0}).message() ==
        "cannot write /no/such/place/trace.json: No such file or directory");
}

TEST_CASE("A trace is for its user alone") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("trace.json");
  const mode_t before = umask(0);  // so that the mode is the one that Open asks for
  REQUIRE(TraceFile::Open(path, 0, {0}).ok());
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
  CHECK(TraceFile::Open(path, 0, {0}).message().rfind(refusal, 0) == 0);
  CHECK(directory.Read("other") == "mine");
  if (getuid() != 0) return;  // only root can make files of two users
  REQUIRE(unlink(path.c_str()) == 0);
  std::ofstream(path) << "theirs";
  REQUIRE(chown(path.c_str(), 65534, 65534) == 0);
  CHECK(TraceFile::Open(path, 0, {0}).message().rfind(refusal, 0) == 0);
  CHECK(directory.Read("trace.json") == "theirs");
}

TEST_CASE("A trace never goes through a symbolic link") {
  const TemporaryDirectory directory;
  const std::string link = directory.File("trace.json");
  REQUIRE(symlink(directory.File("target").c_str(), link.c_str()) == 0);
  std::ofstream(directory.File("target")) << "mine";
  CHECK(TraceFile::Open(link, 0, {0}).message() == "cannot write " + link + ": Too many levels of symbolic links");
  CHECK(directory.Read("target") == "mine");
}

}  // namespace
}  // namespace xla_shmem::observe
