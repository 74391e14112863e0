// Status and Result: what may go wrong at set-up or on the control plane.
//
// Values, owned by whoever holds them; safe to copy between threads. The data plane does not use
// them: there a lost peer is a completion, and back-pressure is "accepted fewer". Member names of
// Result follow std::expected, which GCC 12 does not have.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/check.h"

namespace phub {

enum class Code {
  kOk,
  kInvalidArgument,  // the caller's input is wrong; the message names the field and the cure
  kNotFound,
  kAlreadyExists,
  kUnauthenticated,     // no credentials, or none that are accepted
  kPermissionDenied,    // wrong secret, or a role that may not do this
  kFailedPrecondition,  // right input at the wrong time
  kResourceExhausted,   // memory, ports, connections, cores
  kDeadlineExceeded,    // the message names who is missing
  kUnavailable,         // a peer is gone
  kAborted,             // the job has ended; the message says why
  kDataLoss,            // a file is truncated or its checksum is wrong
  kInternal,
};

std::string_view code_name(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  // The same error with `context` in front: "context: message".
  Status with_context(std::string_view context) const;

  // "INVALID_ARGUMENT: message", or "OK".
  std::string to_string() const;

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

// The current errno as a Status, worded "what: strerror".
Status errno_status(std::string_view what, Code code = Code::kInternal);

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    PHUB_CHECK(!status_.ok(), "a Result made from an OK Status has no value");
  }

  bool has_value() const { return value_.has_value(); }
  explicit operator bool() const { return has_value(); }
  const Status& error() const { return status_; }

  T& value() {
    PHUB_CHECK(has_value(), status_.message());
    return *value_;
  }
  const T& value() const {
    PHUB_CHECK(has_value(), status_.message());
    return *value_;
  }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace phub

#define PHUB_CONCAT_INNER(a, b) a##b
#define PHUB_CONCAT(a, b) PHUB_CONCAT_INNER(a, b)

// Returns the Status of `expression` from the enclosing function unless it is OK.
#define PHUB_RETURN_IF_ERROR(expression)                                                  \
  do {                                                                                    \
    if (::phub::Status phub_status = (expression); !phub_status.ok()) return phub_status; \
  } while (false)

// `declaration` = the value of the Result `expression`, or return its error.
#define PHUB_ASSIGN_OR_RETURN(declaration, expression)     \
  auto PHUB_CONCAT(phub_result_, __LINE__) = (expression); \
  if (!PHUB_CONCAT(phub_result_, __LINE__)) {              \
    return PHUB_CONCAT(phub_result_, __LINE__).error();    \
  }                                                        \
  declaration = std::move(*PHUB_CONCAT(phub_result_, __LINE__))
