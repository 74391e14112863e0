// PHUB_CHECK: a broken invariant of ours ends the process with file, line and message. Never used
// on a peer's input, which is validated. PHUB_DCHECK is compiled in only where PHUB_DCHECKS is on.
#pragma once

#include <string_view>

namespace phub {
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               std::string_view message);
}  // namespace phub

#define PHUB_CHECK(condition, message)                               \
  do {                                                               \
    if (!(condition)) [[unlikely]] {                                 \
      ::phub::check_failed(__FILE__, __LINE__, #condition, message); \
    }                                                                \
  } while (false)

#ifdef PHUB_ENABLE_DCHECKS
#define PHUB_DCHECK(condition, message) PHUB_CHECK(condition, message)
#else
#define PHUB_DCHECK(condition, message) \
  do {                                  \
    (void)sizeof(condition);            \
  } while (false)
#endif
