// The control port's connections that have a pump: strangers, of whom no call has succeeded, and
// known callers, who are counted to those who pay for them.
//
// All of them share gRPC's memory and the process's descriptors. So strangers have few places and
// send little (lobby.h); of one payer only so many are known, and what they have sent that does not
// end in messages is bounded together. Beyond that the payer's own give way, those of which nothing
// has been heard longest. A payer is a tenant, or "" for administrators and where there are none.
//
// Owned by the listener; its one thread, but for the counters.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/counter.h"
#include "server/door/control_listener.h"
#include "server/door/door.h"
#include "server/door/handed_socket.h"
#include "server/door/lobby.h"
#include "server/door/pump/pump.h"

namespace phub::server {

class ServedConnections {
 public:
  using Serve = ControlListener::Serve;

  ServedConnections(const ControlListenerOptions& options, boost::asio::io_context& context)
      : options_(options), context_(context), strangers_(options.strangers_max) {}

  // Before the first one enters.
  void serve_with(Serve serve) { serve_ = std::move(serve); }
  // A stranger. `door` outlives this.
  void enter(UniqueFd socket, Door& door, const std::string& address);
  // As ControlListener's.
  void know(const std::string& peer, const std::string& payer);
  void count_message(const std::string& peer, std::uint64_t bytes);
  // Forgets what gRPC has closed, and ends what has sent too much.
  void look();
  // Nothing of gRPC's is under way to a client.
  bool are_at_rest() const;

  // Any thread.
  std::uint64_t handed_over() const { return handed_over_.value(); }
  std::uint64_t turned_out() const { return turned_out_.value(); }
  std::uint64_t crowded_out() const { return crowded_out_.value(); }
  std::uint64_t unruly() const { return unruly_.value(); }
  std::uint64_t held() const { return held_.value(); }

 private:
  struct Served;
  struct Payer {
    std::list<Served*> known;  // heard of longest ago first; not empty
    std::uint64_t unfinished = 0;
  };
  using Payers = std::map<std::string, Payer>;
  struct Served final : Lobby::Guest {
    Served(Door& door_, std::string address_, std::string peer_)
        : door(door_), address(std::move(address_)), peer(std::move(peer_)) {}
    void turn_out() override {
      pump->close();
      was_turned_out = true;
    }
    // gRPC may have calls of it.
    bool is_over() const { return pump->is_over() && !(grpc_end && grpc_end->is_open()); }
    std::shared_ptr<Pump> pump;
    std::optional<HandedSocket> grpc_end;  // since it has one
    Door& door;
    const std::string address;  // without the port, of IPv6 the network: what budgets count
    const std::string peer;     // the whole one, as ControlPeer's
    bool is_known = false;
    bool was_turned_out = false;
    std::optional<Payers::iterator> payer;  // while it is known and not turned out
    std::list<Served*>::iterator place;     // there
    std::uint64_t received = 0;             // at the last look
    std::uint64_t unfinished = 0;           // of that, beyond whole messages
    std::uint64_t finished = 0;             // since the last look
  };
  using Connections = std::map<std::string, Served>;

  void open(Served& served, const std::string& name, UniqueFd grpc_end);
  void say_unruly(const Served& served, std::string_view reason);
  void say_held(const Served& served, std::string_view reason);
  Connections::iterator forget(Connections::iterator connection);
  void end_if_too_long(Served& served);
  void end_payers_longest();
  // Whether there is a place for one more of the payer's.
  bool make_room(const std::string& payer);
  void crowd_out(Payers::iterator payer);
  void leave_payer(Served& served);
  void give_memory_back();
  void turn_out(Served& served);
  std::size_t share_of(const std::string& payer) const;

  const ControlListenerOptions options_;
  boost::asio::io_context& context_;
  Serve serve_;
  Lobby strangers_;
  Connections served_;  // by gRPC's name for them
  Payers payers_;       // that have known ones
  std::size_t known_ = 0;
  std::size_t looks_ = 0;
  std::uint64_t strangers_sent_ = 0;  // those who are gone, since memory was given back
  std::chrono::steady_clock::time_point gave_back_;
  std::chrono::steady_clock::time_point said_full_;
  std::chrono::steady_clock::time_point said_unfinished_;
  std::chrono::steady_clock::time_point said_crowded_;
  std::chrono::steady_clock::time_point said_unruly_;
  std::chrono::steady_clock::time_point said_held_;
  Counter handed_over_;
  Counter turned_out_;
  Counter crowded_out_;
  Counter unruly_;
  Counter held_;
};

}  // namespace phub::server
