// "host:port" as people write it in configurations: names, IPv4, and IPv6 in brackets.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace phub {

struct Address {
  std::string host;  // without brackets
  std::uint16_t port = 0;
};

// Errors: kInvalidArgument says what is wrong and shows the right form.
Result<Address> parse_address(std::string_view text);

// "127.0.0.1:7077", "[::1]:7077".
std::string to_string(const Address& address);

}  // namespace phub
