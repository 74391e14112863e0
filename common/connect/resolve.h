// The addresses of a host, by a deadline that the system's resolver does not have.
//
// A number is read at once. A name is looked up by a thread of its own, which is left behind when
// the deadline passes; it ends with the resolver's own time-outs, and nobody waits for it. Any
// thread may call.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace phub::client {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  int family() const { return storage.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// Asks the system, for as long as that takes. Error: kUnavailable names the host.
using LookUp =
    std::function<Result<std::vector<SocketAddress>>(const std::string& host, std::uint16_t port)>;
Result<std::vector<SocketAddress>> look_up_by_system(const std::string& host, std::uint16_t port);

// At least one address. Errors: those of `look_up`; kDeadlineExceeded; kResourceExhausted, there is
// no thread left.
Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port,
                                           std::chrono::milliseconds timeout,
                                           const LookUp& look_up = look_up_by_system);

}  // namespace phub::client
