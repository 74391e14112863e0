#include "common/rendezvous/peer_host.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>

#include "common/rpc/address.h"
#include "common/rpc/credentials_folder.h"

namespace phub::client {
namespace {

constexpr std::size_t kSocketNameCharsMax = 100;

// gRPC writes brackets and the zone's sign so.
std::string without_percents(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const bool has_digits = text[i] == '%' && i + 2 < text.size();
    const char* const digits = text.data() + i + 1;
    if (has_digits && std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2) {
      plain += static_cast<char>(value);
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

struct FreeAddresses {
  void operator()(ifaddrs* first) const { freeifaddrs(first); }
};

// Numeric, with the zone where it has one; empty: of another family.
std::string text_of(const sockaddr* address) {
  if (address == nullptr) return {};
  const socklen_t bytes = address->sa_family == AF_INET    ? sizeof(sockaddr_in)
                          : address->sa_family == AF_INET6 ? sizeof(sockaddr_in6)
                                                           : 0;
  std::array<char, NI_MAXHOST> host{};
  const bool is_written = bytes > 0 && getnameinfo(address, bytes, host.data(), host.size(),
                                                   nullptr, 0, NI_NUMERICHOST) == 0;
  return is_written ? host.data() : "";
}

}  // namespace

std::optional<std::string> host_of_peer(std::string_view peer) {
  const std::size_t colon = peer.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view family = peer.substr(0, colon);
  if (family != "ipv4" && family != "ipv6") return std::nullopt;
  auto address = parse_address(without_percents(peer.substr(colon + 1)));
  if (!address) return std::nullopt;
  constexpr std::string_view kMapped = "::ffff:";
  std::string& host = address->host;
  if (host.starts_with(kMapped) && host.find('.') != std::string::npos) {
    host.erase(0, kMapped.size());
  }
  return std::move(host);
}

bool is_own_address(const std::string& host) {
  if (is_loopback(host)) return true;
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) return false;
  const std::unique_ptr<ifaddrs, FreeAddresses> all(found);
  for (const ifaddrs* each = all.get(); each != nullptr; each = each->ifa_next) {
    if (!host.empty() && text_of(each->ifa_addr) == host) return true;
  }
  return false;
}

bool is_server_socket(std::string_view name) {
  const auto is_plain = [](char c) {
    return c == '-' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z');
  };
  return name.starts_with("phub-") && name.size() <= kSocketNameCharsMax &&
         std::all_of(name.begin(), name.end(), is_plain);
}

}  // namespace phub::client
