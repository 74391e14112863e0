// The server's end of one handshake (common/transport/handshake.h): from a socket that was just
// accepted to a Candidate for the Admission, or to its end.
//
// Owns itself through the callbacks that wait; ends by dropping the last of them. The acceptor's
// one thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/transport/handshake.h"
#include "common/transport/tcp/congestion.h"
#include "common/transport/tcp/stream_keys.h"
#include "common/transport/verbs/introduction.h"
#include "server/core/drops.h"
#include "server/door/door.h"
#include "server/door/lobby.h"
#include "server/plane/data_plane.h"
#include "server/plane/gathered_streams.h"

namespace phub::server {

// A worker that has proven who it is.
struct Candidate {
  transport::Hello hello;
  UniqueFd socket;
  std::vector<UniqueFd> descriptors;                 // shm: channel, then the worker's memory
  transport::verbs::Introduction introduction = {};  // verbs: the worker's queue pair
  std::optional<transport::StreamKeys> keys = {};    // tcp: of what follows, when it is encrypted
  Secret secret{};                                   // by which it has proven it
  std::vector<ArrivedStream> streams = {};           // tcp: all of its, where there are several
};

struct Admitted {
  std::uint64_t memory_bytes = 0;                              // shm: size of the parameters
  UniqueFd memory_fd;                                          // shm: descriptor to send along
  std::optional<transport::verbs::Introduction> introduction;  // verbs: ours
};

// Who may have a data connection: what the handshake asks, and what it hands over. The acceptor's
// thread calls it.
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

// A listener and those who have come through it and have not proven who they are.
struct Entrance {
  Entrance(boost::asio::io_context& context, UniqueFd listener, std::size_t places, bool shm_,
           Door::OnGuest on_guest)
      : lobby(std::make_shared<Lobby>(places)),
        shm(shm_),
        door(context, std::move(listener), std::move(on_guest)) {}
  // Sessions share it: the io_context keeps some of them longer than the acceptor lives.
  const std::shared_ptr<Lobby> lobby;
  const bool shm;
  Door door;
};

// What all handshakes have in common. It and the entrances outlive the io_context's run.
struct HandshakeContext {
  boost::asio::io_context& io;
  Admission& admission;
  DropCounters& drops;
  transport::CongestionControl congestion_control;
  bool encrypt_tcp = false;
  std::chrono::milliseconds first_word;  // deadline of the first byte
  std::chrono::milliseconds deadline;    // of the whole handshake, once there was one
};

void start_handshake(const HandshakeContext& context, Entrance& entrance, Door::Guest guest);

}  // namespace phub::server
