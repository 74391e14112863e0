// The limits of what two doctors wait for, and a wait for a socket under them.
//
// Values; each doctor is one thread, `stop` may be set by a signal handler or by another thread.
#pragma once

#include <atomic>
#include <chrono>
#include <string>

#include "common/base/status.h"

namespace phub::phubctl::doctor {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct Limits {
  milliseconds connect{5'000};        // for a host to accept a connection
  milliseconds greeting{5'000};       // for a stranger's first message
  milliseconds silence{10'000};       // while a measurement runs
  milliseconds message{20'000};       // for a message of a session; more than `silence`
  milliseconds session{20 * 60'000};  // of one peer, at the listener
  const std::atomic<bool>* stop;      // ends every wait within kSlice; not null
};

constexpr milliseconds kSlice{100};

// kAborted if `limits.stop` is set.
Status check_stop(const Limits& limits);

// Waits until the socket can do one of `events` (of poll). Errors: kDeadlineExceeded, saying that
// `who` is silent; check_stop's.
Status wait_for(int socket, short events, Clock::time_point deadline, const Limits& limits,
                const std::string& who);

}  // namespace phub::phubctl::doctor
