// A listening socket that takes in whoever connects, at the rate that its budget allows, and goes
// on listening whatever accept says.
//
// Strangers who fail cost the budget; while it is spent, all who come wait in the system's queue:
// garbage takes a small part of a CPU, not what it can get. Without a descriptor for another
// connection it tries again after a pause. Runs on the io_context's one thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>
#include <string_view>

#include "common/base/counter.h"
#include "common/base/unique_fd.h"
#include "server/token_bucket.h"

namespace phub::server {

// What a failure costs: one that never said a word, and one that had to be read and answered.
inline constexpr double kSilentCost = 1;
inline constexpr double kSpokenCost = 4;

class Door {
 public:
  // `address`: "192.0.2.7", an IPv6 network of 64 bits, or of a unix socket "user 1000".
  using OnGuest = std::function<void(UniqueFd socket, std::string address)>;

  // `listener` listens already. Nothing is accepted before open().
  Door(boost::asio::io_context& context, UniqueFd listener, OnGuest on_guest);
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  void open();
  // A stranger who was let in has failed.
  void charge(double cost) { budget_.take(TokenBucket::Clock::now(), cost); }
  // Times that there was no descriptor, or no memory, for another connection. Any thread.
  std::uint64_t shortages() const { return shortages_.value(); }

 private:
  void accept_one();
  void open_after(TokenBucket::Clock::duration pause);

  boost::asio::posix::stream_descriptor listener_;
  boost::asio::steady_timer pause_;
  TokenBucket budget_;
  const OnGuest on_guest_;
  Counter shortages_;
};

}  // namespace phub::server
