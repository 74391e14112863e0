// The tcp connections between two doctors, made as the data plane's are, and the limits of what
// doctors wait for.
//
// One thread; `stop` may be set by a signal handler or by another thread.
#pragma once

#include <atomic>
#include <chrono>
#include <string>

#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/rpc/address.h"

namespace phub::doctor {

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

// Where `phubctl doctor --listen` listens unless it is told otherwise.
constexpr std::uint16_t kDefaultPort = 7079;

// "HOST" or "HOST:PORT", "[::1]" or "[::1]:7079". Error: parse_address's.
Result<Address> parse_peer(const std::string& text);

// Connects to the first of the host's addresses that answers. Errors: kNotFound: the name has no
// address; kUnavailable: nobody listens there, or there is no way; kDeadlineExceeded: no answer;
// check_stop's, when a signal comes. The resolver's own time-outs come before ours.
Result<UniqueFd> connect_to(const Address& address, const Limits& limits);

}  // namespace phub::doctor
