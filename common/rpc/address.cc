#include "common/rpc/address.h"

#include <charconv>

namespace phub {
namespace {

Status malformed(std::string_view text, std::string_view what) {
  return {Code::kInvalidArgument,
          "\"" + std::string(text) + "\" " + std::string(what) +
              " (write host:port, for example 127.0.0.1:7077, or [::1]:7077 for IPv6)"};
}

}  // namespace

Result<Address> parse_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return malformed(text, "has no port");
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return malformed(text, "is an IPv6 address without brackets, or has two ports");
  }
  if (host.empty()) return malformed(text, "has no host");
  if (host.find_first_of(" \t[]/") != std::string_view::npos) {
    return malformed(text, "has a character that no host name has");
  }
  Address address{.host = std::string(host)};
  const char* const end = port.data() + port.size();
  const auto [parsed, error] = std::from_chars(port.data(), end, address.port);
  if (port.empty() || error != std::errc() || parsed != end) {
    return malformed(text, "has a port that is not a number from 0 to 65535");
  }
  return address;
}

std::string to_string(const Address& address) {
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

}  // namespace phub
