// Rounds of a job whose processes are threads here.
#include "xla_patch/runtime/job_rounds.h"

#include <doctest/doctest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "xla_patch/types/status.h"

namespace xla_shmem {
namespace {

using std::chrono::milliseconds;

class ThreadsStore : public JobStore {
 public:
  Status Set(const std::string& key, const std::string& value) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
    return {};
  }
  Result<std::optional<std::string>> Wait(const std::string& key, milliseconds time) override {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!changed_.wait_for(lock, time, [&] { return values_.count(key) != 0; })) return std::optional<std::string>();
    return std::optional<std::string>(values_[key]);
  }
  std::optional<std::string> Get(const std::string& key) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional<std::string>(found->second);
  }
  Result<std::string> Propose(const std::string& key, const std::string& value) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    changed_.notify_all();
    return values_.emplace(key, value).first->second;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

using Body = std::function<Status(int process, const JobRounds& rounds)>;

// Runs `body` in each process of a job and returns its messages.
std::vector<std::string> InEachProcess(int processes, const Body& body, milliseconds patience = milliseconds(60000)) {
  const auto store = std::make_shared<ThreadsStore>();
  std::vector<std::string> messages(processes);
  std::vector<std::thread> threads;
  for (int process = 0; process < processes; ++process) {
    threads.emplace_back([&, process] {
      messages[process] = body(process, JobRounds(process, processes, store, "test/", patience)).message();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return messages;
}

std::vector<std::string> Same(int number, const std::string& message) {
  return std::vector<std::string>(number, message);
}

TEST_CASE("processes that agree get the facts of all, whatever characters the agreement has") {
  const auto messages = InEachProcess(3, [](int process, const JobRounds& rounds) {
    const auto facts = rounds.Agree("r", JobAnswer{std::to_string(process), "a=1 b=x\ny"});
    return Status::Error(facts.ok() ? (*facts)[0] + (*facts)[1] + (*facts)[2] : facts.message());
  });
  CHECK(messages == Same(3, "012"));
}

TEST_CASE("all processes get the reason of the one that cannot") {
  const auto messages = InEachProcess(3, [](int process, const JobRounds& rounds) {
    const Result<JobAnswer> own = process == 1 ? Result<JobAnswer>(Status::Error("no driver")) : JobAnswer{"", "same"};
    return rounds.Agree("r", own).status();
  });
  CHECK(messages == Same(3, "process 1: no driver"));
}

TEST_CASE("agreements that differ are refused with both") {
  const auto messages = InEachProcess(3, [](int process, const JobRounds& rounds) {
    return rounds.Agree("r", JobAnswer{"", process == 2 ? "b" : "a"}).status();
  });
  CHECK(messages == Same(3, "process 2 has b and process 0 has a: they must be equal"));
}

TEST_CASE("all processes get the reason of the check, which sees the facts in order") {
  const auto check = [](const std::vector<std::string>& facts) {
    return Status::Error(facts[0] + facts[1] + facts[2] + " is too little memory");
  };
  const auto messages = InEachProcess(3, [&](int process, const JobRounds& rounds) {
    return rounds.Agree("r", JobAnswer{std::to_string(process), ""}, check).status();
  });
  CHECK(messages == Same(3, "012 is too little memory"));
}

TEST_CASE("a process that is never heard of is named in the others") {
  const auto messages = InEachProcess(
      3,
      [](int process, const JobRounds& rounds) {
        return process == 2 ? Status::Error("gone") : rounds.Agree("r", JobAnswer{"", "same"}).status();
      },
      milliseconds(200));
  CHECK(messages[0].rfind("process 2 runs without xla-shmem (it has announced nothing within 0.2 s)", 0) == 0);
  CHECK(messages[1] == messages[0]);
}

TEST_CASE("the verdict of processes that waited for process 0 holds for it too") {
  const auto messages = InEachProcess(
      2,
      [](int process, const JobRounds& rounds) {
        if (process == 0) std::this_thread::sleep_for(milliseconds(900));
        return rounds.Agree("r", JobAnswer{"", "same"}).status();
      },
      milliseconds(200));
  CHECK(messages[0].rfind("process 0 runs without xla-shmem (it has announced nothing within 0.4 s)", 0) == 0);
  CHECK(messages[1] == messages[0]);
}

TEST_CASE("an outcome is none until the process has answered") {
  const JobRounds rounds(0, 1, std::make_shared<ThreadsStore>(), "test/", milliseconds(1000));
  CHECK_FALSE(rounds.Outcome("start", 0).has_value());
  CHECK(rounds.Agree("start", JobAnswer{"", "offset 0"}).ok());
  CHECK(rounds.Outcome("start", 0)->ok());
  CHECK_FALSE(rounds.Agree("again", Status::Error("no luck")).ok());
  CHECK(rounds.Outcome("again", 0)->message() == "no luck");
}

TEST_CASE("only process 0 makes what all get from it, or the reason why it cannot") {
  const auto made = InEachProcess(3, [](int process, const JobRounds& rounds) {
    const Result<std::string> id = rounds.FromProcess0(
        "id", [&]() -> Result<std::string> { return std::string("made by ") + std::to_string(process); });
    return Status::Error(id.ok() ? *id : id.message());
  });
  CHECK(made == Same(3, "made by 0"));
  const auto failed = InEachProcess(2, [](int, const JobRounds& rounds) {
    return rounds.FromProcess0("id", [] { return Result<std::string>(Status::Error("no network")); }).status();
  });
  CHECK(failed == Same(2, "no network"));
}

}  // namespace
}  // namespace xla_shmem
