// Threads that the system may refuse.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <system_error>

#include "common/base/status.h"

namespace phub::server {

// Runs `make`, which makes one thread. Errors: kResourceExhausted where the system has none left;
// `what` is what it was to be for.
template <typename Make>
Status make_thread(std::string_view what, const Make& make) {
  try {
    make();
    return {};
  } catch (const std::system_error&) {
    return {Code::kResourceExhausted,
            fmt::format("no thread can be made for {}; is the limit of processes (`ulimit -u`, "
                        "TasksMax= of systemd) too low, or memory short?",
                        what)};
  }
}

}  // namespace phub::server
