// The server's end of one handshake (common/transport/handshake.h): from a socket that was just
// accepted to a Candidate for the Admission, or to its end.
//
// Owns itself through the callbacks that wait; ends by dropping the last of them. The acceptor's
// one thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "common/base/unique_fd.h"
#include "common/transport/tcp/congestion.h"
#include "server/core/drops.h"
#include "server/door/door.h"
#include "server/door/lobby.h"
#include "server/plane/admission.h"

namespace phub::server {

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
