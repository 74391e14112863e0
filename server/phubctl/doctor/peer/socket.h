// The tcp connections between two doctors: made as the data plane's are.
//
// One thread.
#pragma once

#include <string>

#include "common/base/unique_fd.h"
#include "common/rpc/address.h"
#include "server/phubctl/doctor/peer/limits.h"

namespace phub::phubctl::doctor {

// Where `phubctl doctor --listen` listens unless it is told otherwise.
constexpr std::uint16_t kDefaultPort = 7079;

// "HOST" or "HOST:PORT", "[::1]" or "[::1]:7079". Error: parse_address's.
Result<Address> parse_peer(const std::string& text);

// Connects to the first of the host's addresses that answers. Errors: kNotFound: the name has no
// address; kUnavailable: nobody listens there, or there is no way; kDeadlineExceeded: no answer;
// check_stop's, when a signal comes. The resolver's own time-outs come before ours.
Result<UniqueFd> connect_to(const Address& address, const Limits& limits);

}  // namespace phub::phubctl::doctor
