#include "server/phubctl/doctor/peer/lobby.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "server/phubctl/doctor/peer/meeting.h"

namespace phub::phubctl::doctor {

Result<std::unique_ptr<Lobby>> Lobby::create(const Address& address, const Limits& limits) {
  PHUB_ASSIGN_OR_RETURN(UniqueFd listener, listen_at(address));
  return std::unique_ptr<Lobby>(new Lobby(std::move(listener), limits));
}

Result<Visitor> Lobby::next(std::optional<Clock::time_point> deadline) {
  while (true) {
    PHUB_RETURN_IF_ERROR(check_stop(limits_));
    if (auto visitor = look()) return std::move(*visitor);
    if (deadline && Clock::now() > *deadline) {
      return Status(Code::kDeadlineExceeded, "nobody came in time");
    }
    wait(kSlice);
    accept();
  }
}

void Lobby::wait(milliseconds limit) {
  std::vector<pollfd> all;
  for (const Guest& guest : guests_) all.push_back({guest.socket.get(), POLLIN, 0});
  if (guests_.size() < kMostWaiting) all.push_back({listener_.get(), POLLIN, 0});
  ::poll(all.data(), all.size(), static_cast<int>(limit.count()));
}

void Lobby::accept() {
  while (guests_.size() < kMostWaiting) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    guests_.push_back({std::move(socket), Clock::now() + limits_.greeting});
  }
}

std::optional<Visitor> Lobby::look() {
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    const auto complete = guest->inbox.take(guest->socket.get());
    if (complete && !*complete && Clock::now() < guest->until) {
      ++guest;
      continue;
    }
    Visitor visitor{.socket = std::move(guest->socket), .from = {}, .hello = {}};
    const bool has_greeted = complete && *complete && guest->inbox.parse(visitor.hello).ok() &&
                             visitor.hello.magic() == kMagic;
    guest = guests_.erase(guest);
    if (!has_greeted) continue;
    visitor.from = to_string(peer_address(visitor.socket.get()));
    return visitor;
  }
  return std::nullopt;
}

}  // namespace phub::phubctl::doctor
