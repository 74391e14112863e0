// Servers of several racks in one process, which know each other, at ports of their own.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/unique_fd.h"
#include "tests/support/hang_guard.h"
#include "tests/support/server/test_server.h"

namespace phub {

// A port of loopback that nobody has, below those that the kernel gives to connections. No other
// test takes it until this process ends: each sees the claim (tests/support/processes.py has the
// same). One thread.
inline std::uint16_t free_port() {
  static std::mt19937 random{std::random_device{}()};
  static std::vector<UniqueFd> claims;
  for (;;) {
    const auto port = static_cast<std::uint16_t>(15'000 + random() % 17'000);
    sockaddr_un claim = {};
    claim.sun_family = AF_UNIX;
    const std::string name = '\0' + ("phub-test-port-" + std::to_string(port));
    std::copy(name.begin(), name.end(), claim.sun_path);
    const auto claim_bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    UniqueFd claimed(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::bind(claimed.get(), reinterpret_cast<const sockaddr*>(&claim), claim_bytes) != 0) {
      continue;
    }
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const UniqueFd free(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::bind(free.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      continue;
    }
    claims.push_back(std::move(claimed));
    return port;
  }
}

struct JoinedServersOptions {
  std::string transport = "auto";  // between racks
  std::uint32_t racks = 2;
  std::vector<std::string> names = {};       // of each; empty: "a", "b", ...
  std::uint32_t servers = 1;                 // of each
  std::uint32_t cores = 2;                   // of each server
  std::vector<std::uint32_t> cores_of = {};  // by rack, of each of its servers; empty: `cores`
  // Nobody dies in a test that says nothing: on a busy machine a beat may take long.
  std::chrono::milliseconds heartbeat_deadline = testing::kHangGuard;
};

class JoinedServers {
 public:
  explicit JoinedServers(const JoinedServersOptions& options) {
    for (std::uint32_t rack = 0; rack < options.racks; ++rack) {
      auto& entry = entries_.emplace_back();
      entry.name = std::string(1, static_cast<char>('a' + rack));
      if (!options.names.empty()) entry.name = options.names[rack];
      for (std::uint32_t i = 0; i < options.servers; ++i) {
        entry.servers.push_back("127.0.0.1:" + std::to_string(free_port()));
      }
    }
    for (const auto& entry : entries_) {
      for (const std::string& address : entry.servers) {
        server::DaemonOptions daemon;
        daemon.data_plane.cores = cores_of(options, entry.name);
        daemon.heartbeat_deadline = options.heartbeat_deadline;
        daemon.rack_transport = options.transport;
        daemon.directory = {.rack = entry.name, .address = address, .racks = entries_};
        auto server = TestServer::start_at(address, std::move(daemon));
        PHUB_CHECK(server, "a server of a rack: " + server.error().to_string());
        servers_.push_back(std::move(*server));
      }
    }
  }

  const std::vector<std::string>& addresses(std::uint32_t rack) const {
    return entries_[rack].servers;
  }
  const std::string& name(std::uint32_t rack) const { return entries_[rack].name; }

 private:
  std::uint32_t cores_of(const JoinedServersOptions& options, const std::string& name) const {
    if (options.cores_of.empty()) return options.cores;
    std::uint32_t rack = 0;
    while (entries_[rack].name != name) ++rack;
    return options.cores_of[rack];
  }

  std::vector<server::RackEntry> entries_;
  std::vector<std::unique_ptr<TestServer>> servers_;
};

}  // namespace phub
