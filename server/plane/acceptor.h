// Lets authenticated workers in: listens on the tcp data port and the unix socket, runs the
// handshake of common/transport/handshake.h, and hands the connection to the Admission.
//
// Runs on the io_context's one thread. What is not a proper handshake within its deadline is
// closed and counted; nothing that a stranger sends can do more. How many may try at a time, and
// who gives way: lobby.h.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/transport/tcp/congestion.h"
#include "server/core/drops.h"
#include "server/plane/handshake_session.h"

namespace phub::server {

struct AcceptorOptions {
  std::string tcp_address;  // empty: no tcp
  transport::CongestionControl congestion_control;
  bool encrypt_tcp = false;                   // what is not shm has to be encrypted
  std::string shm_socket;                     // abstract name; empty: no shm
  std::chrono::milliseconds first_word{900};  // deadline of a handshake's first byte
  std::chrono::milliseconds deadline{5000};   // of the whole, once there was one
  std::size_t places = 512;                   // handshakes at a time, of tcp and of shm each
};

class Acceptor {
 public:
  static Result<std::unique_ptr<Acceptor>> create(const AcceptorOptions& options,
                                                  boost::asio::io_context& context,
                                                  Admission& admission);
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  std::uint16_t tcp_port() const { return tcp_port_; }
  const DropCounters& drops() const { return drops_; }
  // Times that there was no descriptor, or no memory, for another connection.
  std::uint64_t shortages() const {
    return (tcp_ ? tcp_->door.shortages() : 0) + (unix_ ? unix_->door.shortages() : 0);
  }

 private:
  Acceptor(const AcceptorOptions& options, boost::asio::io_context& context, Admission& admission);
  Status listen_tcp();
  void open(std::optional<Entrance>& entrance, UniqueFd listener, bool shm);

  AcceptorOptions options_;
  DropCounters drops_;
  const HandshakeContext handshakes_;
  std::uint16_t tcp_port_ = 0;
  // Apart, so that strangers on the network keep no local worker out, nor the reverse.
  std::optional<Entrance> tcp_;
  std::optional<Entrance> unix_;
};

}  // namespace phub::server
