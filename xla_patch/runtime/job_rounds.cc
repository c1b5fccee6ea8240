#include "xla_patch/runtime/job_rounds.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

namespace xla_shmem {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::string_view kReady = "ready ";
constexpr std::string_view kFailed = "failed ";

// An answer as text for the store, and back.
std::string Encode(const Result<std::string>& answer) {
  return answer.ok() ? std::string(kReady) + *answer : std::string(kFailed) + answer.message();
}

Result<std::string> Decode(const std::string& text) {
  if (text.compare(0, kReady.size(), kReady) == 0) return text.substr(kReady.size());
  return Status::Error(text.compare(0, kFailed.size(), kFailed) == 0 ? text.substr(kFailed.size()) : text);
}

std::string AsText(const JobAnswer& answer) { return answer.facts + "\n" + answer.agreement; }

JobAnswer AsAnswer(const std::string& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  return {text.substr(0, end), text.substr(std::min(end + 1, text.size()))};
}

}  // namespace

Result<std::vector<std::string>> JobRounds::Agree(const std::string& round, const Result<JobAnswer>& own,
                                                  const Check& check) const {
  const Result<std::string> text = own.ok() ? Result<std::string>(AsText(*own)) : own.status();
  XLA_SHMEM_RETURN_IF_ERROR(store_->Set(KeyOf(round, process_), Encode(text)));
  const Result<std::string> verdict = Verdict(round, check);
  if (!verdict.ok()) return verdict.status();
  if (const Result<std::string> agreed = Decode(*verdict); !agreed.ok()) return agreed.status();
  std::vector<std::string> facts;
  for (int process = 0; process < num_processes_; ++process) {
    Result<JobAnswer> answer = Answer(round, process, steady_clock::now() + patience_);
    if (!answer.ok()) return answer.status();
    facts.push_back(std::move(answer->facts));
  }
  return facts;
}

Result<std::string> JobRounds::Verdict(const std::string& round, const Check& check) const {
  const std::string key = prefix_ + round + "/verdict";
  if (process_ == 0) {
    const Result<std::vector<std::string>> judged = Judge(round, check);
    return store_->Propose(key, Encode(judged.ok() ? Result<std::string>(std::string()) : judged.status()));
  }
  // Process 0 may itself wait for the others.
  Result<std::optional<std::string>> verdict = store_->Wait(key, 2 * patience_);
  if (!verdict.ok()) return verdict.status();
  if (std::optional<std::string>& text = *verdict; text.has_value()) return *std::move(text);
  return store_->Propose(key, Encode(Status::Error(Absent(0, 2 * patience_))));
}

Result<std::vector<std::string>> JobRounds::Judge(const std::string& round, const Check& check) const {
  const auto deadline = steady_clock::now() + patience_;
  std::vector<std::string> facts;
  std::string agreement;
  for (int process = 0; process < num_processes_; ++process) {
    Result<JobAnswer> answer = Answer(round, process, deadline);
    if (!answer.ok()) return answer.status();
    if (process == 0) agreement = answer->agreement;
    if (answer->agreement != agreement) {
      return Status::Error("process " + std::to_string(process) + " has " + answer->agreement + " and process 0 has " +
                           agreement + ": they must be equal");
    }
    facts.push_back(std::move(answer->facts));
  }
  if (check) XLA_SHMEM_RETURN_IF_ERROR(check(facts));
  return facts;
}

Result<JobAnswer> JobRounds::Answer(const std::string& round, int process, steady_clock::time_point deadline) const {
  // An answer that exists is read even after the deadline.
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
  const auto waited = store_->Wait(KeyOf(round, process), std::max(left, milliseconds(100)));
  if (!waited.ok()) return waited.status();
  const std::optional<std::string>& text = *waited;
  if (!text.has_value()) return Status::Error(Absent(process, patience_));
  const Result<std::string> answer = Decode(*text);
  if (!answer.ok()) return Status::Error("process " + std::to_string(process) + ": " + answer.message());
  return AsAnswer(*answer);
}

std::optional<Status> JobRounds::Outcome(const std::string& round, int process) const {
  const std::optional<std::string> text = store_->Get(KeyOf(round, process));
  if (!text.has_value()) return std::nullopt;
  return Decode(*text).status();
}

Result<std::string> JobRounds::FromProcess0(const std::string& name,
                                            const std::function<Result<std::string>()>& make) const {
  const std::string key = prefix_ + name;
  if (process_ == 0) XLA_SHMEM_RETURN_IF_ERROR(store_->Set(key, Encode(make())));
  const Result<std::optional<std::string>> waited = store_->Wait(key, patience_);
  if (!waited.ok()) return waited.status();
  const std::optional<std::string>& text = *waited;
  return text.has_value() ? Decode(*text) : Status::Error(Absent(0, patience_));
}

std::string JobRounds::KeyOf(const std::string& round, int process) const {
  return prefix_ + round + "/" + std::to_string(process);
}

std::string JobRounds::Absent(int process, milliseconds time) const {
  char seconds[32];
  snprintf(seconds, sizeof(seconds), "%g", static_cast<double>(time.count()) / 1000);
  return "process " + std::to_string(process) + " runs without xla-shmem (it has announced nothing within " + seconds +
         " s): set the flag and install the package in every process";
}

}  // namespace xla_shmem
