// The limits of what two doctors wait for.
//
// Values; `stop` may be set by a signal handler or by another thread.
#pragma once

#include <atomic>
#include <chrono>

#include "common/base/status.h"

namespace phub::phubctl::doctor {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct Limits {
  milliseconds connect{5'000};   // for a host to accept a connection
  milliseconds greeting{5'000};  // for a stranger's first message
  milliseconds silence{10'000};  // while a measurement runs
  milliseconds message{20'000};  // for the other one's next word; more than `silence`
  milliseconds meeting{20 * 60'000};
  const std::atomic<bool>* stop;  // ends every wait within kSlice; not null
};

constexpr milliseconds kSlice{100};

// kAborted if `limits.stop` is set.
inline Status check_stop(const Limits& limits) {
  return *limits.stop ? Status(Code::kAborted, "stopped before it was done") : Status();
}

}  // namespace phub::phubctl::doctor
