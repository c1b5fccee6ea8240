#include "xla/backends/gpu/shmem/job_rounds.h"

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "xla/tsl/platform/status_macros.h"
#include "xla_patch/types/status.h"

namespace xla::gpu {
namespace {

using ::xla_shmem::Result;
using ::xla_shmem::Status;

constexpr absl::string_view kPrefix = "xla_shmem/2/";
// Processes of a job may be minutes apart in loading data and libraries.
constexpr absl::Duration kTimeout = absl::Minutes(10);
constexpr absl::string_view kReady = "ready ";
constexpr absl::string_view kFailed = "failed ";

Status ToShmemStatus(const absl::Status& status) {
  return status.ok() ? Status() : Status::Error(std::string(status.message()));
}

// An answer as text for the store, and back.
std::string Encode(const Result<std::string>& answer) {
  return answer.ok() ? absl::StrCat(kReady, *answer) : absl::StrCat(kFailed, answer.message());
}

Result<std::string> Decode(absl::string_view text) {
  if (absl::ConsumePrefix(&text, kReady)) return std::string(text);
  return Status::Error(std::string(absl::StripPrefix(text, kFailed)));
}

std::string KeyOf(const std::string& round, int process) { return absl::StrCat(kPrefix, round, "/", process); }

}  // namespace

Status JobRounds::Agree(const std::string& round, const Result<std::string>& own, const Check& check) const {
  const absl::StatusOr<std::string> verdict = Verdict(round, Encode(own), check);
  return verdict.ok() ? Decode(*verdict).status() : ToShmemStatus(verdict.status());
}

Result<std::string> JobRounds::Answer(const std::string& round, int process) const {
  const absl::StatusOr<std::string> text = kv_store_->Get(KeyOf(round, process), kTimeout);
  if (text.ok()) return Decode(*text);
  return Status::Error(absl::StrCat("did not answer: ", text.status().message()));
}

std::optional<Status> JobRounds::Outcome(const std::string& round, int process) const {
  const absl::StatusOr<std::string> text = kv_store_->TryGet(KeyOf(round, process));
  if (!text.ok()) return std::nullopt;
  return Decode(*text).status();
}

Result<std::string> JobRounds::FromProcess0(const std::string& name,
                                            const std::function<Result<std::string>()>& make) const {
  const std::string key = absl::StrCat(kPrefix, name);
  if (process_ == 0) {
    const absl::Status set = kv_store_->Set(key, Encode(make()));
    if (!set.ok()) return ToShmemStatus(set);
  }
  const absl::StatusOr<std::string> text = kv_store_->Get(key, kTimeout);
  return text.ok() ? Decode(*text) : ToShmemStatus(text.status());
}

absl::StatusOr<std::string> JobRounds::Verdict(const std::string& round, const std::string& own,
                                               const Check& check) const {
  const std::string key = absl::StrCat(kPrefix, round, "/verdict");
  RETURN_IF_ERROR(kv_store_->Set(KeyOf(round, process_), own));
  if (process_ == 0) RETURN_IF_ERROR(kv_store_->Set(key, Encode(Judge(round, check))));
  // Process 0 may itself wait that long for each of the others.
  return kv_store_->Get(key, 2 * kTimeout);
}

Result<std::string> JobRounds::Judge(const std::string& round, const Check& check) const {
  std::vector<std::string> answers;
  for (int process = 0; process < num_processes_; ++process) {
    Result<std::string> answer = Answer(round, process);
    if (!answer.ok()) return Status::Error(absl::StrCat("process ", process, ": ", answer.message()));
    answers.push_back(*std::move(answer));
  }
  XLA_SHMEM_RETURN_IF_ERROR(check(answers));
  return std::string();
}

Status CheckEqual(const std::vector<std::string>& answers) {
  for (size_t process = 1; process < answers.size(); ++process) {
    if (answers[process] == answers[0]) continue;
    return Status::Error(absl::StrCat("process ", process, " has ", answers[process], " and process 0 has ", answers[0],
                                      ": they must be equal"));
  }
  return {};
}

}  // namespace xla::gpu
