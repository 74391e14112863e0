#include "server/door/door.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace phub::server {
namespace {

// Between tries when there is no descriptor left for another connection.
constexpr std::chrono::milliseconds kShortagePause{50};

std::string text_of(int family, const void* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const char* const made = ::inet_ntop(family, address, text.data(), text.size());
  return made == nullptr ? "" : made;
}

std::string address_of(const sockaddr_storage& peer, int socket) {
  if (peer.ss_family == AF_INET) {
    return text_of(AF_INET, &reinterpret_cast<const sockaddr_in&>(peer).sin_addr);
  }
  if (peer.ss_family == AF_INET6) {
    in6_addr address = reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&address)) return text_of(AF_INET, &address.s6_addr[12]);
    std::memset(&address.s6_addr[8], 0, 8);  // a host may have all addresses of its network
    return text_of(AF_INET6, &address);
  }
  ucred peer_user{};
  socklen_t length = sizeof(peer_user);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer_user, &length) != 0) return "";
  return "user " + std::to_string(peer_user.uid);
}

bool is_shortage(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

Door::Door(boost::asio::io_context& context, UniqueFd listener, OnGuest on_guest)
    : listener_(context, listener.release()),
      pause_(context),
      budgets_(DoorBudgets::Clock::now()),
      on_guest_(std::move(on_guest)) {
  // Who connects may be gone before it is accepted; accept must not wait for the next then.
  const int flags = ::fcntl(listener_.native_handle(), F_GETFL);
  ::fcntl(listener_.native_handle(), F_SETFL, flags | O_NONBLOCK);
}

void Door::open() {
  listener_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                       [this](const boost::system::error_code& error) {
                         if (!error) accept_one();
                       });
}

void Door::shut() {
  pause_.cancel();
  listener_.close();
}

void Door::open_later() {
  pause_.expires_after(kShortagePause);
  pause_.async_wait([this](const boost::system::error_code& error) {
    if (!error) accept_one();
  });
}

void Door::accept_one() {
  sockaddr_storage peer{};
  socklen_t length = sizeof(peer);
  UniqueFd socket(::accept4(listener_.native_handle(), reinterpret_cast<sockaddr*>(&peer), &length,
                            SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket && is_shortage(errno)) {
    shortages_.add(1);
    return open_later();
  }
  if (socket) {
    std::string address = address_of(peer, socket.get());
    const bool is_in_doubt = !budgets_.admits(address, DoorBudgets::Clock::now());
    on_guest_({std::move(socket), std::move(address), is_in_doubt});
  }
  open();
}

}  // namespace phub::server
