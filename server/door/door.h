// A listening socket that takes in whoever connects, as the budgets of addresses allow, and goes on
// listening whatever accept says.
//
// Whom the budgets do not let in is in doubt: it is for the door's owner to close the connection,
// or to have it show at once that it is a member's. So garbage takes a part of a CPU, and holds up
// nobody behind it in the system's queue. Without a descriptor for another connection the door
// tries again after a pause.
// Runs on the io_context's one thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>

#include "common/base/counter.h"
#include "common/base/unique_fd.h"
#include "server/door/door_budgets.h"

namespace phub::server {

class Door {
 public:
  struct Guest {
    UniqueFd socket;
    std::string address;  // "192.0.2.7", an IPv6 network of 64 bits, of a unix socket "user 1000"
    bool is_in_doubt;     // its address has spent its budget, or all together have
  };
  using OnGuest = std::function<void(Guest guest)>;

  // `listener` listens already. Nothing is accepted before open().
  Door(boost::asio::io_context& context, UniqueFd listener, OnGuest on_guest);
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  void open();
  // Accepts nobody any more; the system refuses new connections.
  void shut();
  // A stranger who was let in has failed.
  void charge(const std::string& address, double cost) {
    budgets_.charge(address, cost, DoorBudgets::Clock::now());
  }
  // Somebody who was let in has proven who it is.
  void prove(const std::string& address) { budgets_.prove(address, DoorBudgets::Clock::now()); }
  // Times that there was no descriptor, or no memory, for another connection. Any thread.
  std::uint64_t shortages() const { return shortages_.value(); }

 private:
  void accept_one();
  void open_later();

  boost::asio::posix::stream_descriptor listener_;
  boost::asio::steady_timer pause_;
  DoorBudgets budgets_;
  const OnGuest on_guest_;
  Counter shortages_;
};

}  // namespace phub::server
