// Where connections to a listening doctor wait until they have said who they are.
//
// One thread. A stranger costs a place among kMostWaiting for as long as a greeting may take, and
// nothing else: all are waited for at once.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proto/doctor.pb.h"
#include "server/phubctl/doctor/peer/channel.h"
#include "server/phubctl/doctor/peer/socket.h"

namespace phub::phubctl::doctor {

struct Visitor {
  UniqueFd socket;
  std::string from;  // address and port
  doctor_wire::Hello hello;
};

class Lobby {
 public:
  // Error: listen_at's.
  static Result<std::unique_ptr<Lobby>> create(const Address& address, const Limits& limits);

  Address address() const { return own_address(listener_.get()); }

  // The next one whose first bytes are a Hello with our magic; those that send other bytes, or
  // none within the limit, are closed. Without a deadline it waits until it is stopped. Errors:
  // kDeadlineExceeded; check_stop's.
  Result<Visitor> next(std::optional<Clock::time_point> deadline);

 private:
  static constexpr std::size_t kMostWaiting = 32;

  struct Guest {
    UniqueFd socket;
    Clock::time_point until;
    Inbox inbox = {};
  };

  Lobby(UniqueFd listener, const Limits& limits)
      : listener_(std::move(listener)), limits_(limits) {}
  void accept();
  void wait(milliseconds limit);
  // The first that has said a Hello. Those that never will are closed.
  std::optional<Visitor> look();

  UniqueFd listener_;
  Limits limits_;
  std::vector<Guest> guests_;
};

}  // namespace phub::phubctl::doctor
