// Lets authenticated workers in: listens on the tcp data port and the unix socket, runs the
// handshake of common/transport/handshake.h, and hands the connection to the Admission.
//
// Runs on the io_context's one thread. What is not a proper handshake within its deadline is
// closed and counted; nothing that a stranger sends can do more.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/transport/handshake.h"
#include "common/transport/tcp/congestion.h"
#include "common/transport/tcp/stream_keys.h"
#include "common/transport/verbs/introduction.h"
#include "server/data_plane.h"
#include "server/drops.h"
#include "server/token_bucket.h"

namespace phub::server {

// A worker that has proven who it is.
struct Candidate {
  transport::Hello hello;
  UniqueFd socket;
  std::vector<UniqueFd> descriptors;                 // shm: channel, then the worker's memory
  transport::verbs::Introduction introduction = {};  // verbs: the worker's queue pair
  std::optional<transport::StreamKeys> keys = {};    // tcp: of what follows, when it is encrypted
};

struct Admitted {
  std::uint64_t memory_bytes = 0;                              // shm: size of the parameters
  UniqueFd memory_fd;                                          // shm: descriptor to send along
  std::optional<transport::verbs::Introduction> introduction;  // verbs: ours
};

class Admission {
 public:
  virtual ~Admission() = default;
  // The secret of a member, or nothing.
  virtual std::optional<IssuedSecret> secret_of(const transport::Hello& hello) = 0;
  // Attaches the connection to its core, which may take as long as pinning the worker's memory
  // does, and then calls `done`, once, on whatever thread.
  using Done = std::function<void(Result<Admitted>)>;
  virtual void admit(Candidate candidate, Done done) = 0;
};

struct AcceptorOptions {
  std::string tcp_address;  // empty: no tcp
  transport::CongestionControl congestion_control;
  bool encrypt_tcp = false;  // what is not shm has to be encrypted
  std::string shm_socket;    // abstract name; empty: no shm
  std::chrono::milliseconds deadline{5000};
  std::uint32_t max_handshakes = 256;
};

class Acceptor {
 public:
  static Result<std::unique_ptr<Acceptor>> create(const AcceptorOptions& options,
                                                  boost::asio::io_context& context,
                                                  Admission& admission);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  std::uint16_t tcp_port() const { return tcp_port_; }
  const DropCounters& drops() const { return drops_; }

 private:
  class Session;
  // A listener. Strangers may fail at it as fast as its bucket says; while they do so faster, all
  // who come wait in the system's queue: garbage takes a small part of a CPU, not what it can get.
  struct Door {
    Door(boost::asio::io_context& context, int socket, bool shm_);
    boost::asio::posix::stream_descriptor listener;
    boost::asio::steady_timer pause;
    TokenBucket failures;
    bool shm;
  };
  Acceptor(const AcceptorOptions& options, boost::asio::io_context& context, Admission& admission);
  Status listen_tcp();
  void accept(Door& door);
  void accept_one(Door& door);

  AcceptorOptions options_;
  boost::asio::io_context& context_;
  Admission& admission_;
  DropCounters drops_;
  std::uint16_t tcp_port_ = 0;
  // In progress. Sessions share it: the io_context keeps some of them longer than the acceptor
  // lives.
  std::shared_ptr<std::uint32_t> handshakes_ = std::make_shared<std::uint32_t>(0);
  std::optional<Door> tcp_;
  std::optional<Door> unix_;
};

}  // namespace phub::server
