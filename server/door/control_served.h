// The control port's connections that gRPC has: strangers, of whom no call has succeeded, and known
// callers, who are counted to those who pay for them.
//
// All of them share gRPC's memory and the process's descriptors. So strangers have few places and
// send little (lobby.h); of one payer only so many are known, and what they have sent that does not
// end in messages is bounded together. Beyond that the payer's own give way, those of which nothing
// has been heard longest. A payer is a tenant, or "" for administrators and where there are none.
//
// Owned by the listener; its one thread, but for the counters.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>

#include "common/base/counter.h"
#include "server/door/control_listener.h"
#include "server/door/door.h"
#include "server/door/handed_socket.h"
#include "server/door/lobby.h"

namespace phub::server {

class ServedConnections {
 public:
  explicit ServedConnections(const ControlListenerOptions& options)
      : options_(options), strangers_(options.strangers_max) {}

  // A stranger. The socket is the caller's still; `door` outlives this.
  void enter(int socket, Door& door, const std::string& address);
  // As ControlListener's.
  void know(const std::string& peer, const std::string& payer);
  void count_message(const std::string& peer, std::uint64_t bytes);
  // Forgets what gRPC has closed, and ends what has sent too much.
  void look();

  std::uint64_t turned_out() const { return turned_out_.value(); }    // any thread
  std::uint64_t crowded_out() const { return crowded_out_.value(); }  // any thread

 private:
  struct Served;
  struct Payer {
    std::list<Served*> known;  // heard of longest ago first; not empty
    std::uint64_t unfinished = 0;
  };
  using Payers = std::map<std::string, Payer>;
  struct Served final : Lobby::Guest {
    Served(int fd, Door& door_, std::string address_)
        : socket(fd), door(door_), address(std::move(address_)) {}
    void turn_out() override {
      socket.end();
      was_turned_out = true;
    }
    const HandedSocket socket;
    Door& door;
    const std::string address;
    bool is_known = false;
    bool was_turned_out = false;
    std::optional<Payers::iterator> payer;  // while it is known and not turned out
    std::list<Served*>::iterator place;     // there
    std::uint64_t received = 0;             // at the last look
    std::uint64_t unfinished = 0;           // of that, beyond whole messages
    std::uint64_t finished = 0;             // since the last look
  };
  using Connections = std::map<std::string, Served>;

  Connections::iterator forget(Connections::iterator connection);
  void end_if_too_long(Served& served);
  void end_payers_longest();
  // Whether there is a place for one more of the payer's.
  bool make_room(const std::string& payer);
  void crowd_out(Payers::iterator payer);
  void leave_payer(Served& served);
  void turn_out(Served& served);
  std::size_t share_of(const std::string& payer) const;

  const ControlListenerOptions options_;
  Lobby strangers_;
  Connections served_;  // by their other end
  Payers payers_;       // that have known ones
  std::size_t known_ = 0;
  std::size_t looks_ = 0;
  std::chrono::steady_clock::time_point said_full_;
  std::chrono::steady_clock::time_point said_unfinished_;
  std::chrono::steady_clock::time_point said_crowded_;
  Counter turned_out_;
  Counter crowded_out_;
};

}  // namespace phub::server
