#include "server/phubctl/doctor/peer/waits.h"

#include <poll.h>

#include <algorithm>

namespace phub::phubctl::doctor {

Status check_stop(const Limits& limits) {
  return *limits.stop ? Status(Code::kAborted, "stopped before it was done") : Status();
}

Status wait_for(int socket, short events, Clock::time_point deadline, const Limits& limits,
                const std::string& who) {
  while (true) {
    PHUB_RETURN_IF_ERROR(check_stop(limits));
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    pollfd one = {.fd = socket, .events = events, .revents = 0};
    const auto slice = std::clamp(left, milliseconds(0), kSlice);
    if (::poll(&one, 1, static_cast<int>(slice.count())) > 0) return {};
    if (left <= milliseconds(0)) return {Code::kDeadlineExceeded, who + " is silent"};
  }
}

}  // namespace phub::phubctl::doctor
