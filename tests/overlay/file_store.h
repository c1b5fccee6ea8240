// PJRT's key-value store as files in a directory, for processes of one job on this host.
#ifndef XLA_SHMEM_TESTS_OVERLAY_FILE_STORE_H_
#define XLA_SHMEM_TESTS_OVERLAY_FILE_STORE_H_

#include <unistd.h>

#include <atomic>
#include <cctype>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "xla/pjrt/distributed/key_value_store_interface.h"

class FileStore : public xla::KeyValueStoreInterface {
 public:
  explicit FileStore(std::string directory) : directory_(std::move(directory)) {}

  absl::StatusOr<std::string> Get(absl::string_view key, absl::Duration timeout) override {
    const absl::Time end = absl::Now() + timeout;
    for (;;) {
      absl::StatusOr<std::string> value = TryGet(key);
      if (value.ok()) return value;
      if (absl::Now() > end) return absl::DeadlineExceededError(absl::StrCat("no process has set ", key));
      absl::SleepFor(absl::Milliseconds(2));
    }
  }

  absl::StatusOr<std::string> TryGet(absl::string_view key) override {
    std::ifstream file(PathOf(key), std::ios::binary);
    if (!file) return absl::NotFoundError(key);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  // The value appears in one step.
  absl::Status Set(absl::string_view key, absl::string_view value) override {
    const std::string draft = absl::StrCat(directory_, "/draft.", getpid(), ".", ++drafts_);
    std::ofstream(draft, std::ios::binary) << value;
    if (std::rename(draft.c_str(), PathOf(key).c_str()) == 0) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("cannot write ", PathOf(key)));
  }

  std::shared_ptr<tsl::CallOptions> AsyncGet(absl::string_view key,
                                             tsl::CoordinationServiceAgent::StatusOrValueCallback done) override {
    std::thread([this, key = std::string(key), done = std::move(done)] { done(Get(key, absl::Minutes(1))); }).detach();
    return nullptr;
  }

 private:
  // Other characters than letters and digits become numbers.
  std::string PathOf(absl::string_view key) const {
    std::string name;
    for (const char c : key) {
      const auto byte = static_cast<unsigned char>(c);
      if (std::isalnum(byte) != 0) {
        name += c;
      } else {
        absl::StrAppend(&name, "_", static_cast<int>(byte));
      }
    }
    return absl::StrCat(directory_, "/", name);
  }

  const std::string directory_;
  std::atomic<int> drafts_ = 0;
};

#endif  // XLA_SHMEM_TESTS_OVERLAY_FILE_STORE_H_
