// A TCP client that sends what a test tells it and collects what comes back, for tests of the HTTP
// server with peers of every kind.
//
// One thread.
#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <string_view>

#include "common/base/unique_fd.h"
#include "common/rpc/address.h"
#include "tests/support/hang_guard.h"

namespace phub::testing {

class HttpPeer {
 public:
  explicit HttpPeer(const std::string& address)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto parsed = parse_address(address);
    REQUIRE(parsed);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(parsed->port);
    REQUIRE(::inet_pton(AF_INET, parsed->host.c_str(), &to.sin_addr) == 1);
    REQUIRE(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0);
  }

  // False: the server has closed the connection.
  bool send(std::string_view text) const {
    return ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }

  // Something has come, or the server has closed the connection.
  bool is_answered_within(std::chrono::milliseconds time) const {
    pollfd waiting{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&waiting, 1, static_cast<int>(time.count())) > 0;
  }

  // All that comes until the server closes or resets the connection.
  std::string read_to_end() const {
    return read([](const std::string&) { return false; });
  }

  // What comes until `text` is in it.
  std::string read_until(std::string_view text) const {
    return read([text](const std::string& got) { return got.find(text) != std::string::npos; });
  }

 private:
  template <typename Predicate>
  std::string read(Predicate is_enough) const {
    std::string got;
    const auto end = std::chrono::steady_clock::now() + kHangGuard;
    while (!is_enough(got)) {
      if (std::chrono::steady_clock::now() > end) FAIL("no end in time; so far: " << got);
      pollfd waiting{.fd = socket_.get(), .events = POLLIN, .revents = 0};
      if (::poll(&waiting, 1, 100) <= 0) continue;
      char buffer[4096];
      const ssize_t bytes = ::recv(socket_.get(), buffer, sizeof(buffer), 0);
      if (bytes <= 0) break;
      got.append(buffer, static_cast<std::size_t>(bytes));
    }
    return got;
  }

  UniqueFd socket_;
};

}  // namespace phub::testing
