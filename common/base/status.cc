#include "common/base/status.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace phub {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kOk:
      return "OK";
    case Code::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case Code::kNotFound:
      return "NOT_FOUND";
    case Code::kAlreadyExists:
      return "ALREADY_EXISTS";
    case Code::kUnauthenticated:
      return "UNAUTHENTICATED";
    case Code::kPermissionDenied:
      return "PERMISSION_DENIED";
    case Code::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case Code::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case Code::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case Code::kUnavailable:
      return "UNAVAILABLE";
    case Code::kAborted:
      return "ABORTED";
    case Code::kDataLoss:
      return "DATA_LOSS";
    case Code::kInternal:
      return "INTERNAL";
  }
  return "UNKNOWN";
}

Status Status::with_context(std::string_view context) const {
  if (ok()) return *this;
  return {code_, std::string(context) + ": " + message_};
}

std::string Status::to_string() const {
  if (ok()) return "OK";
  return std::string(code_name(code_)) + ": " + message_;
}

Status errno_status(std::string_view what, Code code) {
  return {code, std::string(what) + ": " + std::generic_category().message(errno)};
}

void check_failed(const char* file, int line, const char* condition, std::string_view message) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %.*s\n", file, line, condition,
               static_cast<int>(message.size()), message.data());
  std::abort();
}

}  // namespace phub
