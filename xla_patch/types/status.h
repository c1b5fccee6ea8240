#ifndef XLA_SHMEM_TYPES_STATUS_H_
#define XLA_SHMEM_TYPES_STATUS_H_

#include <cassert>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace xla_shmem {

// The outcome of an operation that can fail for a reason the user should read: success, or one sentence that names the
// thing, the value and the way out. There are no error codes, because no caller acts on the kind of an error.
class [[nodiscard]] Status {
 public:
  // Success.
  Status() = default;

  // `message` must not be empty.
  static Status Error(std::string message) {
    assert(!message.empty());
    Status status;
    status.message_ = std::make_shared<const std::string>(std::move(message));
    return status;
  }

  bool ok() const { return message_ == nullptr; }
  // "" on success.
  const std::string& message() const {
    static const std::string* const none = new std::string;  // leaked on purpose: used until the process ends
    return ok() ? *none : *message_;
  }

 private:
  std::shared_ptr<const std::string> message_;  // null on success, which then costs nothing on the data path
};

// A value of type T, or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  // Implicit, so that functions can `return value;` and `return status;`.
  // NOLINTBEGIN(google-explicit-constructor)
  Result(const T& value) : value_(value) {}
  Result(T&& value) : value_(std::move(value)) {}
  // `status` must be an error.
  Result(Status status) : status_(std::move(status)) { assert(!status_.ok()); }
  // NOLINTEND(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  const std::string& message() const { return status_.message(); }

  // Only if ok().
  // NOLINTBEGIN(bugprone-unchecked-optional-access): the caller has checked
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  // NOLINTEND(bugprone-unchecked-optional-access)

 private:
  std::optional<T> value_;
  Status status_;
};

// Returns from the enclosing function, with the error, if `expression` is a Status that is not ok.
#define XLA_SHMEM_RETURN_IF_ERROR(expression)                                          \
  do {                                                                                 \
    if (::xla_shmem::Status xla_shmem_status = (expression); !xla_shmem_status.ok()) { \
      return xla_shmem_status;                                                         \
    }                                                                                  \
  } while (false)

}  // namespace xla_shmem

#endif  // XLA_SHMEM_TYPES_STATUS_H_
