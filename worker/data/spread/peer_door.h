// Where the other members connect to this one: a listener, and the handshakes of those who come.
//
// A place in a table of fixed size is all that a connection has until it has proven that it is a
// member. When all places are taken, the oldest connection gives way; a member calls again. Each
// member may come once. The door closes when all have come, or at its deadline.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/rendezvous/peer_group.h"
#include "common/transport/handshake.h"
#include "common/transport/tcp/tcp_endpoint.h"

namespace phub::data {

// Made before the job is joined, so that its port can be told. A value with one owner.
class PeerListener {
 public:
  // `address`: "host:port"; empty: a free port at all addresses. Errors name data.spread.address.
  static Result<PeerListener> open(const std::string& address);

  std::uint16_t port() const { return port_; }
  int fd() const { return socket_.get(); }
  void close() { socket_.reset(); }

 private:
  PeerListener(UniqueFd socket, std::uint16_t port) : socket_(std::move(socket)), port_(port) {}

  UniqueFd socket_;
  std::uint16_t port_;
};

class PeerDoor {
 public:
  struct Arrival {
    std::uint32_t member = 0;
    std::uint32_t requests = 0;  // under way at most
    transport::TcpStream stream;
  };

  // `on_arrival` is called by the door's thread. Errors: there is no descriptor or thread left.
  static Result<std::unique_ptr<PeerDoor>> open(PeerListener listener,
                                                const client::PeerGroup& group,
                                                std::chrono::milliseconds timeout,
                                                std::function<void(Arrival)> on_arrival);
  ~PeerDoor();  // closes it
  PeerDoor(const PeerDoor&) = delete;
  PeerDoor& operator=(const PeerDoor&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  enum class Next : std::uint8_t { kHello, kProof };
  // Hello and Mark come first, then Proof.
  static constexpr std::size_t kFirstBytes = sizeof(transport::Hello) + sizeof(transport::Mark);
  struct Caller {
    UniqueFd socket;
    Next next = Next::kHello;
    std::size_t got = 0;
    std::array<std::byte, kFirstBytes> bytes{};
    transport::Hello hello{};
    transport::Challenge challenge{};
    Clock::time_point deadline{};
  };

  PeerDoor(PeerListener listener, client::PeerGroup group, std::chrono::milliseconds timeout,
           std::function<void(Arrival)> on_arrival, UniqueFd wake);
  void run();
  void accept_one();
  // Reads what has come of a caller. False: the caller goes.
  bool read(Caller& caller);
  bool on_first(Caller& caller);
  bool is_proven(const Caller& caller) const;
  void welcome(Caller& caller);
  int milliseconds_left() const;

  static constexpr std::size_t kPlaces = 64;

  PeerListener listener_;
  const client::PeerGroup group_;
  const Clock::time_point end_;
  const std::function<void(Arrival)> on_arrival_;
  UniqueFd wake_;
  std::array<Caller, kPlaces> callers_{};
  std::vector<bool> has_come_;  // [member]
  std::size_t missing_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace phub::data
