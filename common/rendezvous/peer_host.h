// Where a reply came from, and whether that is this host: what a peer says of itself is not proof.
//
// Functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace phub::client {

// The numeric address in a peer's name as gRPC writes it ("ipv4:10.0.0.1:7077",
// "ipv6:%5B::1%5D:7077"), without brackets and port. Nothing: it is no such address.
std::optional<std::string> host_of_peer(std::string_view peer);

// Whether this numeric address is one of this host's, loopback included.
bool is_own_address(const std::string& host);

// Whether a phub-server names its abstract socket so.
bool is_server_socket(std::string_view name);

}  // namespace phub::client
