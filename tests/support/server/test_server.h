// A whole phub-server inside a test: real gRPC, real cores, both transports, free ports.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"
#include "server/daemon.h"
#include "tests/support/hang_guard.h"

namespace phub {

class TestServer {
 public:
  // `address`: where both planes listen, without the port; "[::1]" for IPv6. Nobody is lost by a
  // heartbeat in a test that says nothing of it: on a busy machine one may take long.
  static Result<std::unique_ptr<TestServer>> start(
      std::uint32_t cores, const std::string& address = "127.0.0.1",
      std::chrono::milliseconds heartbeat_deadline = testing::kHangGuard) {
    server::DaemonOptions options;
    options.data_plane.cores = cores;
    options.heartbeat_deadline = heartbeat_deadline;
    return start(std::move(options), address);
  }

  // With these options but for the addresses.
  static Result<std::unique_ptr<TestServer>> start(server::DaemonOptions options,
                                                   const std::string& address = "127.0.0.1") {
    options.data_plane.tcp_address = address + ":0";
    return start_at(address + ":0", std::move(options));
  }

  // With these options but for the control address, "host:port".
  static Result<std::unique_ptr<TestServer>> start_at(const std::string& address,
                                                      server::DaemonOptions options) {
    options.control_address = address;
    options.data_plane.allow_oversubscription = true;
    auto server = std::unique_ptr<TestServer>(new TestServer());
    PHUB_ASSIGN_OR_RETURN(server->daemon_, server::Daemon::create(options));
    return server;
  }

  std::string address() const { return daemon_->control_address(); }
  std::uint16_t data_port() const { return daemon_->tcp_port(); }
  server::Daemon& daemon() { return *daemon_; }

 private:
  TestServer() = default;
  std::unique_ptr<server::Daemon> daemon_;
};

}  // namespace phub
