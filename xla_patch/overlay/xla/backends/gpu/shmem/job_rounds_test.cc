// Rounds of a job whose processes are threads here.
#include "xla/backends/gpu/shmem/job_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "xla/pjrt/distributed/in_memory_key_value_store.h"
#include "xla_patch/types/status.h"

namespace xla::gpu {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::xla_shmem::Result;
using ::xla_shmem::Status;

// Runs `body` in each process of a job and returns its messages.
std::vector<std::string> InEachProcess(int processes,
                                       const std::function<Status(int process, const JobRounds& rounds)>& body) {
  const auto store = std::make_shared<InMemoryKeyValueStore>();
  std::vector<std::string> messages(processes);
  std::vector<std::thread> threads;
  for (int process = 0; process < processes; ++process) {
    threads.emplace_back(
        [&, process] { messages[process] = body(process, JobRounds(process, processes, store)).message(); });
  }
  for (std::thread& thread : threads) thread.join();
  return messages;
}

TEST(JobRoundsTest, EqualAnswersAreAgreed) {
  EXPECT_THAT(InEachProcess(3, [](int, const auto& rounds) { return rounds.Agree("r", {"same"}, CheckEqual); }),
              Each(IsEmpty()));
}

TEST(JobRoundsTest, AllProcessesGetTheReasonOfTheOneThatCannot) {
  const auto messages = InEachProcess(3, [](int process, const auto& rounds) {
    const auto own = process == 1 ? Result<std::string>(Status::Error("no driver")) : std::string("same");
    return rounds.Agree("r", own, CheckEqual);
  });
  EXPECT_THAT(messages, Each("process 1: no driver"));
}

TEST(JobRoundsTest, AllProcessesGetTheReasonOfTheCheckWhichSeesTheAnswersInOrder) {
  const auto check = [](const std::vector<std::string>& answers) {
    EXPECT_THAT(answers, ElementsAre("0", "1", "2"));
    return Status::Error("too little memory");
  };
  const auto messages = InEachProcess(
      3, [&](int process, const auto& rounds) { return rounds.Agree("r", std::to_string(process), check); });
  EXPECT_THAT(messages, Each("too little memory"));
}

TEST(JobRoundsTest, DifferentAnswersAreNotEqual) {
  EXPECT_EQ(CheckEqual({"a", "a", "b"}).message(), "process 2 has b and process 0 has a: they must be equal");
}

TEST(JobRoundsTest, AnOutcomeIsNoneUntilTheProcessHasAnswered) {
  const auto store = std::make_shared<InMemoryKeyValueStore>();
  const JobRounds rounds(0, 1, store);
  EXPECT_FALSE(rounds.Outcome("start", 0).has_value());
  EXPECT_TRUE(rounds.Agree("start", {"offset 0"}, CheckEqual).ok());
  const std::optional<Status> outcome = rounds.Outcome("start", 0);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_TRUE(outcome->ok());
  EXPECT_EQ(*rounds.Answer("start", 0), "offset 0");
  EXPECT_FALSE(rounds.Agree("again", Status::Error("no luck"), CheckEqual).ok());
  const std::optional<Status> failure = rounds.Outcome("again", 0);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->message(), "no luck");
}

TEST(JobRoundsTest, OnlyProcess0MakesWhatAllGetFromIt) {
  const auto messages = InEachProcess(3, [](int process, const auto& rounds) {
    const Result<std::string> id = rounds.FromProcess0(
        "id", [&]() -> Result<std::string> { return std::string("made by ") + std::to_string(process); });
    return Status::Error(id.ok() ? *id : id.message());
  });
  EXPECT_THAT(messages, Each("made by 0"));
}

TEST(JobRoundsTest, AllProcessesGetTheReasonWhyProcess0CannotMakeIt) {
  const auto messages = InEachProcess(2, [](int, const auto& rounds) {
    return rounds.FromProcess0("id", [] { return Result<std::string>(Status::Error("no network")); }).status();
  });
  EXPECT_THAT(messages, Each("no network"));
}

}  // namespace
}  // namespace xla::gpu
