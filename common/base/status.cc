#include "common/base/status.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "common/base/words.h"

namespace phub {

std::string_view code_name(Code code) {
  static constexpr Words<Code, 13> kWords = {
      {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS", "UNAUTHENTICATED",
       "PERMISSION_DENIED", "FAILED_PRECONDITION", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED",
       "UNAVAILABLE", "ABORTED", "DATA_LOSS", "INTERNAL"}};
  return kWords.of(code);
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
