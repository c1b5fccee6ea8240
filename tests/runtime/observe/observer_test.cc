#include "xla_patch/runtime/observe/observer.h"

#include <string>
#include <thread>
#include <vector>

#include "doctest/doctest.h"
#include "tests/runtime/observe/temporary_directory.h"

namespace xla_shmem::observe {
namespace {

TEST_CASE("if all is off, nothing is written and no clock is read") {
  Observer observer;
  CHECK(observer.Start({}, 0, {0}, {0}).empty());
  const Observer::Span span = observer.Begin(0, observer.AddSite({}), 1, 64);
  CHECK(span.start_ns == 0);
  CHECK(span.entry == nullptr);
  observer.MarkWaiting(span);
  observer.End(span, 0, true);
  observer.Fail(span, "why");
  observer.Close(0);
}

TEST_CASE("the recorder follows a collective from start to end") {
  const TemporaryDirectory directory;
  Observer observer;
  REQUIRE(observer.Start({directory.path(), false, ""}, 0, {0}, {0}).empty());
  CHECK_FALSE(observer.measures_copies());
  const RecordedSite* site = observer.AddSite({1, "all-reduce", "f/a", false, {{0}}});
  const Observer::Span span = observer.Begin(0, site, 3, 64);
  REQUIRE(span.entry != nullptr);
  CHECK(span.entry->state == static_cast<uint32_t>(State::kStarted));
  observer.MarkWaiting(span);
  CHECK(span.entry->state == static_cast<uint32_t>(State::kWaiting));
  observer.End(span, 0, false);
  CHECK(span.entry->state == static_cast<uint32_t>(State::kDone));
  CHECK(span.entry->end_ns >= span.start_ns);
}

TEST_CASE("a program that is loaded again takes no more memory and no more of the file") {
  const TemporaryDirectory directory;
  Observer observer;
  REQUIRE(observer.Start({directory.path(), false, ""}, 0, {0}, {0}).empty());
  const Site first{1, "all-reduce", "f/a", false, {{0}}}, second{2, "all-reduce", "f/b", false, {{0}}};
  const RecordedSite* site = observer.AddSite(first);
  CHECK(observer.AddSite(second) != site);
  const size_t bytes = directory.Read("0.ring").size();
  CHECK(observer.AddSite(first) == site);
  CHECK(directory.Read("0.ring").size() == bytes);
}

TEST_CASE("totals and trace hold every execution of a run that the ring has forgotten") {
  const TemporaryDirectory directory;
  Observer observer;
  REQUIRE(observer.Start({directory.path(), true, directory.File("t")}, 0, {0}, {0}).empty());
  CHECK(observer.measures_copies());
  const RecordedSite* site = observer.AddSite({1, "all-reduce", "f/a", false, {{0}}});
  constexpr uint64_t kExecutions = 3 * FlightRecorder::kEntries;
  std::vector<Observer::Span> spans;
  for (uint64_t i = 0; i < kExecutions; ++i) spans.push_back(observer.Begin(0, site, i, 64));
  for (const Observer::Span& span : spans) observer.End(span, 1, true);
  observer.Report();
  CHECK(site->totals.calls == kExecutions);
  CHECK(site->totals.bytes == 64 * kExecutions);
  CHECK(site->totals.moved_ns == kExecutions);
  const std::string trace = directory.Read("t");
  CHECK(trace.find("\"in_run\": 0,") != std::string::npos);
  size_t events = 0;
  for (size_t at = trace.find("f/a"); at != std::string::npos; at = trace.find("f/a", at + 1)) ++events;
  CHECK(events == kExecutions);
}

TEST_CASE("threads that end executions at once lose none") {
  Observer observer;
  REQUIRE(observer.Start({"", true, ""}, 0, {0}, {0}).empty());
  const RecordedSite* site = observer.AddSite({1, "all-reduce", "f/a", false, {{0}}});
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 2'000; ++i) observer.End(observer.Begin(0, site, i, 8), 0, thread == 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(site->totals.calls == 8'000);
  CHECK(site->totals.inline_calls == 2'000);
  CHECK(site->totals.bytes == 64'000);
}

TEST_CASE("parts that do not work are named and the rest works") {
  const TemporaryDirectory directory;
  Observer observer;
  const std::vector<std::string> warnings = observer.Start({"/no/such/place", true, directory.path()}, 0, {0}, {0});
  REQUIRE(warnings.size() == 2);
  CHECK(warnings[0] == "no flight recorder: cannot create /no/such/place/0.ring: No such file or directory");
  CHECK(warnings[1] == "no trace: cannot write " + directory.path() + ": Is a directory");
  CHECK(observer.FailJob("why") == "why");  // and no place of records
  const Observer::Span span = observer.Begin(0, observer.AddSite({}), 1, 64);
  observer.End(span, 0, true);
}

}  // namespace
}  // namespace xla_shmem::observe
